"""The circuit alone: the parts that the paper names, each kept alone and removed alone (paper, sections 5.1 and 5.2).

    QK1   `=` to the operand slots (black in figure qk0), numbers to variables (purple), positions of the prefix to variables
          (orange), positions of the prefix to each other (red)
    OV1   variables
    QK2   copied variables to copied variables: the identity block
    OV2   numbers, in the network's frequencies
    MLP2  reads layer 2's output alone, and the unembedding reads MLP2 alone

What the paper does not name is how literals are found. In layer 2 `=` itself, with nothing copied into it, asks for the
operand slots (`LITERALS`); and numbers that layer 1 has copied into `=` ask too (`COPIED`).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from assignadd.config import Config, Task
from assignadd.interventions.kept import Kept, kept_logits
from assignadd.measures.fourier import network_frequencies
from assignadd.model.accuracy import Exam
from assignadd.model.stack import Stack
from assignadd.model.table import require_covered
from assignadd.task.evalsets import EVAL_SETS
from assignadd.task.roles import operand_slots
from assignadd.task.vocabulary import Vocabulary

if TYPE_CHECKING:
    from jaxtyping import Bool

SEQUENCES = 1000
# A part is necessary where some set loses this much without it, and sufficient for its circuit where none does with it alone.
LOSS = 0.1
WHOLE, PAPER, COMPLEMENT = "the network", "all named parts", "none of the named parts"
LITERALS, COPIED = "named, and in QK2 = to operand slots", "the same, and copied numbers"


# Fields of `Kept` that are not as in the whole network.
Changes = dict[str, Any]


class Blocks:
    """Masks over the C = K + T table rows, and the named parts made of them."""

    def __init__(self, task: Task):
        vocabulary = Vocabulary(task)
        self.K, self.C = vocabulary.size, vocabulary.size + task.length
        self.numbers, self.variables = self.rows(vocabulary.numbers), self.rows(vocabulary.variables)
        self.prefix = self.rows(range(self.K, self.K + task.prefix))
        self.slots = self.rows(self.K + slot for slot in operand_slots(task))
        self.equals = self.rows((vocabulary.equals, self.C - 1))  # the token and its position ask together
        self.qk1 = {
            "= to slots": self.equals[:, None] & self.slots,
            "numbers to variables": self.numbers[:, None] & self.variables,
            "positions to variables": self.prefix[:, None] & self.variables,
            "positions to positions": self.prefix[:, None] & self.prefix,
        }
        nothing = torch.zeros(self.C, dtype=torch.bool)
        variables_ask, numbers_ask = (torch.cat([copied, nothing[:1]])[:, None] for copied in (self.variables, self.numbers))
        itself_asks = torch.cat([nothing, ~nothing[:1]])[:, None]
        self.identity = variables_ask & torch.cat([nothing, self.variables])
        self.to_slots = itself_asks & torch.cat([self.slots, nothing])
        self.from_numbers = numbers_ask & torch.cat([~nothing, ~nothing])
        self.fetched = torch.cat([self.numbers, nothing])

    def rows(self, indices: object) -> Bool[Tensor, " C"]:
        mask = torch.zeros(self.C, dtype=torch.bool)
        mask[list(indices)] = True  # type: ignore[call-overload]
        return mask

    @property
    def qk1_named(self) -> Tensor:
        return torch.stack(list(self.qk1.values())).any(0)

    def everything(self, n_frequencies: int) -> Kept:
        C = self.C
        sizes = {"qk1": (C, C), "ov1": (C,), "qk2": (C + 1, 2 * C), "ov2": (2 * C,), "frequencies": (n_frequencies,)}
        return Kept(**{name: torch.ones(size, dtype=torch.bool) for name, size in sizes.items()})  # type: ignore[arg-type]


def variants(task: Task, own: Bool[Tensor, " K"]) -> dict[tuple[str, str], Kept]:
    """Every row of the table, by its group and name; `own` are the network's frequencies."""
    b = Blocks(task)
    full = b.everything(len(own))
    keep: dict[str, Changes] = {
        "QK1: the four blocks": {"qk1": b.qk1_named},
        "OV1: variables": {"ov1": b.variables},
        "QK2: identity block": {"qk2": b.identity},
        "OV2: numbers, key frequencies": {"ov2": b.fetched, "frequencies": own},
        "MLP2: alone": {"own": False, "direct": False},
    }
    both = b.qk1["numbers to variables"] | b.qk1["positions to variables"]
    remove: dict[str, Changes] = {
        **{f"QK1: {name}": {"qk1": ~block} for name, block in b.qk1.items()},
        "QK1: both to variables": {"qk1": ~both},
        "QK1: the four blocks": {"qk1": ~b.qk1_named},
        "OV1: variables": {"ov1": ~b.variables},
        "QK2: identity block": {"qk2": ~b.identity},
        "QK2: = to operand slots": {"qk2": ~b.to_slots},
        "OV2: key frequencies": {"frequencies": ~own},
        "OV2: numbers": {"ov2": ~b.fetched},
    }
    paper: Changes = {k: v for changes in keep.values() for k, v in changes.items()}
    complement = {"qk1": ~b.qk1_named, "ov1": ~b.variables, "qk2": ~b.identity, "frequencies": ~own}
    literals = paper | {"qk2": b.identity | b.to_slots}
    copied = paper | {"qk2": b.identity | b.to_slots | b.from_numbers, "ov1": b.variables | b.numbers}
    together: dict[str, Changes] = {WHOLE: {}, PAPER: paper, LITERALS: literals, COPIED: copied, COMPLEMENT: complement}
    groups = {"together": together, "kept alone": keep, "removed alone": remove}
    return {(group, name): dataclasses.replace(full, **c) for group, rows in groups.items() for name, c in rows.items()}


@dataclass(frozen=True)
class CircuitAlone:
    """Accuracy with parts kept or removed, on each evaluation set."""

    rows: list[tuple[str, str]]
    """Group (together, kept alone, removed alone) and name."""
    sets: list[str]
    accuracy: np.ndarray  # (rows, sets)
    n: int

    def row(self, group: str, name: str) -> np.ndarray:
        return self.accuracy[self.rows.index((group, name))]

    def relative(self, group: str, name: str) -> float:
        """Mean accuracy over the sets as a part of the whole network's: the faithfulness of what is kept; of the complement,
        what a complete circuit must not leave."""
        return float(self.row(group, name).mean() / max(self.row("together", WHOLE).mean(), 1 / self.n))

    def worst_loss(self, group: str, name: str) -> float:
        """The most that any set loses."""
        return float((self.row("together", WHOLE) - self.row(group, name)).max())

    @property
    def necessary(self) -> list[str]:
        return [name for group, name in self.rows if group == "removed alone" and self.worst_loss(group, name) >= LOSS]

    @property
    def sufficient(self) -> list[str]:
        return [name for group, name in self.rows if group == "kept alone" and self.worst_loss(group, name) < LOSS]


def circuit_alone(one: Stack, config: Config, seen: Bool[Tensor, "N N"], n: int = SEQUENCES) -> CircuitAlone:
    """The table for one model, on `n` sequences of each evaluation set."""
    require_covered(config)
    exam, found = Exam([config], seen[None], EVAL_SETS, n), []
    rows = variants(config.task, network_frequencies(one)[0].cpu())
    for keep in rows.values():
        correct = kept_logits(one, exam.tokens, [keep]).argmax(-1) == exam.labels
        found.append(correct.view(len(exam.names), n).double().mean(1).numpy())
    return CircuitAlone(list(rows), exam.names, np.stack(found), n)
