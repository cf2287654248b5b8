"""The table: the effect of every change on 22 seeds of the census that bind, and the five predictions for each seed.

`python -m findings.operand_attention.table RUN ...` prints such a table for the networks of other runs. Its fields, for
each model and evaluation set: the accuracy without a change; the accuracy lost with each change, with its interval;
and the mean weights of `=` in layer 1 by kind of key. The runs of the table are `twelve`, the seeds in which the
operand slots often do not have the two largest weights, and `ordinary`, ten others. The table in this folder also has
changes that were not used, and how often the slots have the two largest weights.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assignadd import open_run
from assignadd.dynamics import binds
from assignadd.ledger import AtLeast, AtMost, Measured, Network, networks_of

from . import attention
from .attention import SEQUENCES, TRAINED, UNCHANGED, operand_attention

FILE = Path(__file__).with_name("operand-attention.json")
TWELVE, ORDINARY = "twelve", "ordinary"


@dataclass(frozen=True)
class Prediction:
    """What was predicted of every seed before 18 of the 22 were measured: the loss of accuracy with each change."""

    id: str
    says: str
    set: str
    changes: tuple[str, ...]
    rule: AtLeast | AtMost

    def losses(self, model: Mapping[str, Any]) -> list[Measured]:
        """The accuracy that each change costs one model of the table."""
        lost = [model["sets"][self.set]["lost"][change] for change in self.changes]
        return [Measured(value, low, high, SEQUENCES, "sequences") for value, low, high in lost]

    def worst(self, losses: Sequence[Measured]) -> Measured:
        """The loss that is nearest to the wrong side."""
        pick = min if self.rule == LARGE else max
        return pick(losses, key=lambda loss: loss.value)

    def holds(self, model: Mapping[str, Any]) -> bool:
        """Whether the whole interval of every loss is on the predicted side."""
        return all(self.rule.verdict(loss) == "holds" for loss in self.losses(model))


LARGE, SMALL = AtLeast(0.5), AtMost(0.05)
PREDICTIONS = (
    Prediction("variable", "one variable: no weight on it", TRAINED, (attention.NO_VARIABLE,), LARGE),
    Prediction("literal", "one variable: the literal not read, worst of three ways", TRAINED,
               (attention.NO_LITERAL, attention.LITERAL_TO_EQUALS, attention.OTHER_LITERAL), SMALL),
    Prediction("variable-alone", "one variable: weight on it alone", TRAINED, (attention.ONLY_VARIABLE,), SMALL),
    Prediction("exchanged", "one variable: literal and = exchanged", TRAINED, (attention.EXCHANGED,), SMALL),
    Prediction("two-variables", "two variables: no weight on one of them", attention.TWO,
               (attention.NO_FIRST, attention.NO_SECOND), LARGE),
    Prediction("literals", "two literals: no weight on either", attention.LITERALS, (attention.NO_SLOTS,), SMALL),
)  # fmt: skip


def table() -> dict[str, Any]:
    """The table of this finding, with its provenance."""
    return json.loads(FILE.read_text())


def results() -> list[str]:
    """A line for each prediction: in how many seeds it holds, and the worst losses of the seeds in both runs.

    In brackets the end of their intervals that is nearest to the wrong side.
    """
    models, lines = table()["models"], []
    for prediction in PREDICTIONS:
        line = f"{prediction.id}: holds in {sum(map(prediction.holds, models))} of {len(models)} seeds"
        for run in (TWELVE, ORDINARY):
            worst = [prediction.worst(prediction.losses(model)) for model in models if model["run"] == run]
            values = [loss.value for loss in worst]
            end = min(loss.low for loss in worst) if prediction.rule == LARGE else max(loss.high for loss in worst)
            line += f"; {run}: {min(values):.4f} to {max(values):.4f} ({end:.4f})"
        lines.append(line)
    return lines


def row(network: Network) -> dict[str, Any]:
    """The entry of one network."""
    sets: dict[str, Any] = {}
    for name, results in operand_attention(network.stack, network.config, network.seen, network.n).items():
        lost = {change: results.lost(change) for change in results.correct if change != UNCHANGED}
        sets[name] = {
            "accuracy": round(results.correct[UNCHANGED].double().mean().item(), 5),
            "lost": {change: [round(x, 4) for x in (m.value, m.low, m.high)] for change, m in lost.items()},
            "weights": {kind: round(w.double().mean().item(), 4) for kind, w in results.weights.items()},
        }
    return {"run": network.name, "seed": network.seed, "step": network.step, "sets": sets}


def measured(runs: Sequence[str], n: int = SEQUENCES) -> dict[str, Any]:
    """A table of the networks of these runs that bind."""
    networks = [network for run in runs for network in networks_of(open_run(run), n=n)[0]]
    return {"runs": list(runs), "n": n, "models": [row(network) for network in networks if binds(network)]}


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1:])))
