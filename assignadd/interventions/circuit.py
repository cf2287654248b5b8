"""The circuit alone: accuracy with only the parts that the paper names, with one part kept, and with one part removed.

Section 5 (5.1 addition, 5.2 variable assignment) describes how variables are looked up and added:

    QK1   `=` to the operand slots (black in figure qk0), numbers to variables (purple), positions of the prefix to
          variables (orange), positions of the prefix to each other (red)
    OV1   variables
    QK2   copied variables to copied variables: the identity block
    OV2   numbers, in the network's frequencies
    MLP2  reads layer 2's output alone, and the unembedding reads MLP2 alone

Section 7 (eq. init_w0) adds how literal operands are found. In QK2 the last position p_T asks for the operand slots and
for numbers, W_0 = beta (p_{T-2} + p_{T-1}) p_T^T + beta sum_n e_n p_T^T, and after the theorem's step also for copied
variables, sum_v OV1(e_v) p_T^T. The section's model has no embedding of the token `=`. In the network token and
position always occur together, so that training can divide a score between them in any way: each block is kept once for
the position's row alone, and once for both rows.

Not in the paper: numbers that layer 1 copies into `=` ask in QK2 as well.

Every score and every output of attention is a sum over the C = K + T embedding rows [W_E; W_pos] (see `model.table`),
so a part of a circuit is a block of a table, and the network without it is the table forward with zeros there.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Config, Task
from assignadd.measures.fourier import kept, network_frequencies
from assignadd.model.accuracy import Exam
from assignadd.model.forward import CHUNK, table_forward, unstacked
from assignadd.model.stack import Stack, single_models
from assignadd.model.table import require_covered
from assignadd.model.trace import Tables
from assignadd.task.evalsets import EVAL_SETS
from assignadd.task.roles import operand_slots
from assignadd.task.vocabulary import Vocabulary

SEQUENCES = 2000
# A part is needed where some set loses this much accuracy without it.
LOSS = 0.1
WHOLE, SECTION_5, COMPLEMENT = "the network", "section 5's parts", "none of section 5's parts"
# Section 5's parts and, in QK2, what the last position alone asks for; what it and the token `=` ask for.
POSITION_SLOTS, POSITION_NUMBERS = "+ last position to slots", "+ last position to numbers"
SECTION_7, SECTION_7_STEP = "+ last position to both (section 7)", "+ last position to both, copied variables"
EQUALS_SLOTS, EQUALS_BOTH = "+ = to slots", "+ = to both (section 7)"
# The parts of EQUALS_SLOTS, and what numbers that layer 1 copied into `=` ask for.
COPIED_SLOTS, COPIED_ALL = "+ = and copied numbers to slots", "+ = to slots, copied numbers to all"


# Fields of `Kept` that are not as in the whole network.
Changes = dict[str, Any]


@dataclass(frozen=True)
class Kept:
    """Which entries of the tables stay, and which paths around attention and MLP2."""

    qk1: Bool[Tensor, "C C"]
    """Scores of layer 1, rows asking."""
    ov1: Bool[Tensor, " C"]
    """Rows that layer 1 copies."""
    qk2: Bool[Tensor, "C+2 2*C"]
    """Scores of layer 2, rows asking: what layer 1 wrote into `=` (C rows), the token `=`, the last position. Columns,
    the keys: what a position holds before layer 1 (C), what layer 1 wrote into it (C)."""
    ov2: Bool[Tensor, " 2*C"]
    """Rows that layer 2 fetches: what a key is, and what it was sent by layer 1."""
    frequencies: Bool[Tensor, " K"]
    """Frequencies of OV2(e_n) that stay; the constant always does."""
    own: bool = True
    """Whether MLP2 and the unembedding see what `=` held before layer 2."""
    direct: bool = True
    """Whether the unembedding sees what MLP2 reads, and not MLP2's output alone."""


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
        self.fetched = self.keys(self.numbers)
        self.identity = self.qk2(copied=self.variables, keys=self.keys(copied=self.variables))

    def keys(
        self, held: Bool[Tensor, " C"] | None = None, copied: Bool[Tensor, " C"] | None = None
    ) -> Bool[Tensor, " {2*self.C}"]:
        """Keys of layer 2: rows that a position holds before layer 1, and rows that layer 1 copied into it."""
        none = torch.zeros(self.C, dtype=torch.bool)
        return torch.cat([none if held is None else held, none if copied is None else copied])

    def qk2(
        self,
        keys: Bool[Tensor, " {2*self.C}"],
        copied: Bool[Tensor, " C"] | None = None,
        token: bool = False,
        position: bool = False,
    ) -> Bool[Tensor, "{self.C+2} {2*self.C}"]:
        """Scores of layer 2 from rows that layer 1 copied into `=`, the token `=` and the last position, each if asked
        for."""
        none = torch.zeros(self.C, dtype=torch.bool)
        return torch.cat([none if copied is None else copied, torch.tensor([token, position])])[:, None] & keys

    def rows(self, indices: object) -> Bool[Tensor, " C"]:
        mask = torch.zeros(self.C, dtype=torch.bool)
        mask[list(indices)] = True  # type: ignore[call-overload]
        return mask

    @property
    def qk1_named(self) -> Tensor:
        return torch.stack(list(self.qk1.values())).any(0)

    def everything(self, n_frequencies: int) -> Kept:
        C = self.C
        sizes = {"qk1": (C, C), "ov1": (C,), "qk2": (C + 2, 2 * C), "ov2": (2 * C,), "frequencies": (n_frequencies,)}
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
        "QK2: = to operand slots": {"qk2": ~b.qk2(b.keys(b.slots), token=True, position=True)},
        "OV2: key frequencies": {"frequencies": ~own},
        "OV2: numbers": {"ov2": ~b.fetched},
    }
    section_5: Changes = {k: v for changes in keep.values() for k, v in changes.items()}
    complement = {"qk1": ~b.qk1_named, "ov1": ~b.variables, "qk2": ~b.identity, "frequencies": ~own}
    together: dict[str, Changes] = {WHOLE: {}, SECTION_5: section_5}
    together |= {name: section_5 | changes for name, changes in _literals(b).items()}
    groups = {"together": together | {COMPLEMENT: complement}, "kept alone": keep, "removed alone": remove}
    return {(group, name): dataclasses.replace(full, **c) for group, rows in groups.items() for name, c in rows.items()}


def _literals(b: Blocks) -> dict[str, Changes]:
    """How literal operands are found: what is added to section 5's parts, by the name of the row."""
    slots, numbers, everything = b.keys(b.slots), b.keys(b.numbers), torch.ones(2 * b.C, dtype=torch.bool)
    asked = {POSITION_SLOTS: slots, POSITION_NUMBERS: numbers, SECTION_7: slots | numbers}
    asked[SECTION_7_STEP] = slots | numbers | b.keys(copied=b.variables)
    found: dict[str, Changes] = {name: {"qk2": b.identity | b.qk2(keys, position=True)} for name, keys in asked.items()}
    for name, keys in ((EQUALS_SLOTS, slots), (EQUALS_BOTH, slots | numbers)):
        found[name] = {"qk2": b.identity | b.qk2(keys, token=True, position=True)}
    for name, keys in ((COPIED_SLOTS, slots), (COPIED_ALL, everything)):
        found[name] = {
            "qk2": found[EQUALS_SLOTS]["qk2"] | b.qk2(keys, copied=b.numbers),
            "ov1": b.variables | b.numbers,
        }
    return found


def kept_tables(full: Tables, keep: Kept, task: Task) -> Tables:
    """The tables of one model (without the axis M) with zeros in place of what is not kept."""
    C, N = len(full.embeddings), task.modulus
    copied = full.equal_rows[:C] * keep.ov1[:, None]
    equal_rows = torch.cat([copied, full.equal_rows[C:]])
    both = torch.cat([full.embeddings, copied])
    asking = torch.cat([copied, full.embeddings[[Vocabulary(task).equals, C - 1]]])
    of_layer_1, of_itself = (both @ (asking @ full.QK2).T * keep.qk2.T).split([C, 2], 1)
    fetched = both @ full.OV2 * keep.ov2[:, None]
    fetched[:N] = kept(fetched[None, :N], keep.frequencies)[0]
    return dataclasses.replace(
        full,
        queries_1=full.queries_1 @ full.keys_1.T * keep.qk1,
        keys_1=torch.eye(C, dtype=both.dtype, device=both.device),
        equal_rows=equal_rows,
        both=both,
        queries_2=equal_rows @ full.QK2,
        scores_2=torch.cat([of_layer_1, of_itself.sum(1, keepdim=True)], 1),
        outputs=torch.cat([equal_rows * keep.own, fetched]),
    )


@torch.no_grad()
def kept_logits(stack: Stack, tokens: Int[Tensor, "#M B T"], keeps: list[Kept]) -> Float[Tensor, "M B N"]:
    """Answer logits of every model with its own parts kept, on its own sequences or on shared ones (M = 1 in
    `tokens`)."""
    table, found = table_forward(stack.config, stack.flat.device), []
    for one, keep, own in zip(single_models(stack), keeps, tokens.expand(len(stack), *tokens.shape[1:]), strict=True):
        w = unstacked(one)
        tables = kept_tables(table.tables(w), keep, stack.config.task)
        traces = [table.forward(w, part, tables) for part in own.split(CHUNK)]
        found.append(torch.cat([trace.logits if keep.direct else trace.neurons @ w.W_out @ w.U for trace in traces]))
    return torch.stack(found)


@dataclass(frozen=True)
class CircuitAlone:
    """Which sequences of each evaluation set are answered correctly with parts kept or removed; all rows see the same
    sequences."""

    rows: list[tuple[str, str]]
    """Group (together, kept alone, removed alone) and name."""
    sets: list[str]
    correct: np.ndarray  # (rows, sets, sequences), bool

    @property
    def n(self) -> int:
        """Sequences of each set."""
        return self.correct.shape[2]

    @property
    def accuracy(self) -> np.ndarray:
        """(rows, sets)"""
        return self.correct.mean(2)

    def answers(self, group: str, name: str) -> np.ndarray:
        """(sets, sequences): which are answered correctly."""
        return self.correct[self.rows.index((group, name))]

    def row(self, group: str, name: str) -> np.ndarray:
        """(sets,): accuracy."""
        return self.answers(group, name).mean(1)

    def with_variables(self, n_vars: int) -> np.ndarray:
        """(sets,): which sets are sums with so many variables."""
        return np.array([name.startswith(f"{n_vars}-var") for name in self.sets])

    def relative(self, group: str, name: str) -> float:
        """Mean accuracy over the sets divided by the whole network's: the faithfulness of what is kept; for the
        complement, what a complete circuit must not leave."""
        return float(self.row(group, name).mean() / max(self.row("together", WHOLE).mean(), 1 / self.n))

    def worst_set(self, group: str, name: str) -> int:
        """The set that loses most."""
        return int((self.row("together", WHOLE) - self.row(group, name)).argmax())

    def worst_loss(self, group: str, name: str) -> float:
        """The most that any set loses."""
        return float((self.row("together", WHOLE) - self.row(group, name)).max())


def circuit_alone(one: Stack, config: Config, seen: Bool[Tensor, "N N"], n: int = SEQUENCES) -> CircuitAlone:
    """The table for one model, on `n` sequences of each evaluation set."""
    require_covered(config)
    exam, found = Exam([config], seen[None], EVAL_SETS, n), []
    rows = variants(config.task, network_frequencies(one)[0].cpu())
    for keep in rows.values():
        correct = kept_logits(one, exam.tokens, [keep]).argmax(-1) == exam.labels
        found.append(correct.view(len(exam.names), n).numpy())
    return CircuitAlone(list(rows), exam.names, np.stack(found))
