"""What participation policies have in common."""

from typing import ClassVar


class Policy:
    """Declares what a policy asks for. By default nothing, and it may invite all who are available."""

    needs_losses: ClassVar[bool] = False  # the losses of the available clients at the current model
    needs_optimum: ClassVar[bool] = False  # each client's smallest training loss F*_k

    def capacity(self, available: int) -> int:
        """The most clients that can be invited when at most `available` are there."""
        return available
