"""Amplified SCAFFOLD: control variates and amplified steps of whole periods."""

from dataclasses import replace
from typing import Any

from fedtide.methods.base import Facts, Method, arguments_of, method
from fedtide.methods.generalised_fedavg import generalised_fedavg
from fedtide.solvers import PeriodicControlVariate


@method(
    title="Amplified SCAFFOLD",
    purpose="cyclic participation",
    facts=Facts(
        unbiased="over a period in which all clients take part equally often",
        server_models=4,
        client_models=2,
        client_scalars=True,
        extra_up="d (the change of its mean gradient)",
        extra_down="d (c), once per period",
    ),
    bibtex="""
    @inproceedings{crawshaw2024periodic,
      title = {Federated Learning under Periodic Client Participation and Heterogeneous Data: A New
        Communication-Efficient Algorithm and Analysis},
      author = {Crawshaw, Michael and Liu, Mingrui},
      booktitle = {NeurIPS}, year = {2024}
    }
    """,
)
@arguments_of(generalised_fedavg)
def amplified_scaffold(*arguments: Any, **named: Any) -> Method:
    """Correct local steps by the gradients of the last period, and amplify the change of the model over each period.

    w ← w − η_s Σ_{k∈S} q_k Δ_k, q_k = α_k / Σ_S α, with local steps along g − c_k + c; after every `period` = P rounds
    w ← w_P + γ (w − w_P), w_P the model P rounds ago. c_k is the mean of all gradients of client k in the last period
    in which it took part, c = Σ α_k c_k; both change at the ends of periods only. For participation that is even over
    P rounds. γ = 1 and P = 1 is SCAFFOLD.
    """
    base = generalised_fedavg(*arguments, **named)
    server: Any = base.server
    return replace(base, name="amplified_scaffold", solver=PeriodicControlVariate(base.solver, server.period))
