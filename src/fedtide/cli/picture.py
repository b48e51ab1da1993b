"""Who is there, as text: two clients to a line of half blocks."""

import numpy as np

_BLOCKS = np.array([[" ", "▄"], ["▀", "█"]])  # [upper client there, lower client there]


def picture(trace: np.ndarray, most_clients: int = 24) -> list[str]:
    """Lines of text for bool[rounds, clients]: rounds from left to right, clients (evenly chosen) from top to bottom.

    >>> import numpy as np
    >>> picture(np.array([[1, 1], [1, 0], [0, 1], [0, 0]], bool))
    ['█▀▄ ']
    """
    clients = trace.shape[1]
    shown = np.unique(np.linspace(0, clients - 1, min(clients, most_clients)).round().astype(int))
    here = trace[:, shown].T.astype(int)
    if len(here) % 2:
        here = np.vstack([here, np.zeros_like(here[:1])])
    return ["".join(_BLOCKS[upper, lower]) for upper, lower in zip(here[::2], here[1::2], strict=True)]
