"""The predictions of `table.py` as claims about any network that binds."""

from collections.abc import Callable

from assignadd.dynamics import binds
from assignadd.ledger import Claim, Measured, Network, per_network
from assignadd.model import require

from .attention import OperandAttention, operand_attention
from .table import LARGE, PREDICTIONS, Prediction


@per_network()
def operand_attention_of(network: Network) -> dict[str, OperandAttention]:
    """The effect of changes of layer 1's attention from `=`, by evaluation set."""
    return operand_attention(network.stack, network.config, network.seen, min(network.n, 5000))


def worst_loss(prediction: Prediction) -> Callable[[Network], Measured | None]:
    """A measure: the accuracy that a network loses with the change that is nearest to the wrong side."""

    def measure(network: Network) -> Measured | None:
        require(network.config, "the changed attention of = in layer 1")
        results = operand_attention_of(network).get(prediction.set) if binds(network) else None
        return None if results is None else prediction.worst([results.lost(change) for change in prediction.changes])

    return measure


CLAIMS = tuple(
    Claim.ours(
        f"layer-1-{prediction.id}",
        f"With other attention of `=` in layer 1 ({prediction.says}), "
        f"{'half of the accuracy or more' if prediction.rule == LARGE else 'at most .05 of the accuracy'} is lost.",
        worst_loss(prediction),
        prediction.rule,
        "The value is the accuracy lost with the change that is nearest to the wrong side.",
    )
    for prediction in PREDICTIONS
)
