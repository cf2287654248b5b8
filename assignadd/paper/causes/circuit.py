"""Accuracy with only the parts of the circuit that the paper names, with one part kept, and with one part removed.

Section 5 (5.1 addition, 5.2 variable assignment) describes how variables are looked up and added:

    QK1   scores of `=` with the operand slots (black in figure qk0), of numbers with variables (purple), of positions
          in the prefix with variables (orange) and with each other (red)
    OV1   outputs of variables
    QK2   scores between copied variables OV1(e_v): the identity block
    OV2   outputs of numbers, at the network's frequencies
    MLP2  reads only layer 2's attention output, and the unembedding reads only MLP2

Section 7 (eq. init_w0) describes how literal operands are found. The last position p_T is a query in QK2 with a high
score for the operand slots and for numbers, W_0 = beta (p_{T-2} + p_{T-1}) p_T^T + beta sum_n e_n p_T^T, and after the
gradient step of the theorem also for copied variables, sum_v OV1(e_v) p_T^T. The model of that section has no embedding
of the token `=`. In the network, token and position always occur together, so training can divide a score between them
in any way. Each block is therefore kept once for the row of the position only, and once for both rows.

Not in the paper: numbers that layer 1 copies into `=` contribute to its query in QK2 as well.

Every score and every output of attention is a sum over the C = K + T embedding rows [W_E; W_pos] (see `model.table`).
A part of the circuit is therefore a block of a table, and removing it means setting that block to zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Config, Task
from assignadd.measures.addition import network_frequencies, restricted_to
from assignadd.model.accuracy import Exam
from assignadd.model.architecture import PAPER_NEEDS, require
from assignadd.model.forward import CHUNK, table_forward, unstacked
from assignadd.model.stack import Stack
from assignadd.model.table import Tables
from assignadd.network import Network, per_network
from assignadd.task.evalsets import EVAL_SETS
from assignadd.task.positions import operand_slots
from assignadd.task.vocabulary import Vocabulary

# Sequences of each set: the circuit alone runs the network 27 times.
SEQUENCES = 2000
# A part counts as needed if removing it costs this much accuracy on some evaluation set.
LOSS = 0.1
WHOLE, SECTION_5, COMPLEMENT = "the network", "section 5's parts", "none of section 5's parts"
# Section 5's parts with further QK2 scores: of the last position only, then of the last position and the token `=`.
POSITION_SLOTS, POSITION_NUMBERS = "+ last position to slots", "+ last position to numbers"
SECTION_7, SECTION_7_STEP = "+ last position to both (section 7)", "+ last position to both, copied variables"
EQUALS_SLOTS, EQUALS_BOTH = "+ = to slots", "+ = to both (section 7)"
# The parts of EQUALS_SLOTS with further QK2 scores of numbers that layer 1 copied into `=`.
COPIED_SLOTS, COPIED_ALL = "+ = and copied numbers to slots", "+ = to slots, copied numbers to all"
# The fields of `Kept` that differ from the whole network.
Changes = dict[str, Any]


@dataclass(frozen=True)
class Kept:
    """Masks of the table entries that are kept, and whether the paths around layer 2's attention and MLP2 are kept."""

    qk1: Bool[Tensor, "C C"]
    """Scores of layer 1, (query row, key row)."""
    ov1: Bool[Tensor, " C"]
    """Rows whose output in layer 1 is kept."""
    qk2: Bool[Tensor, "C+2 2*C"]
    """Scores of layer 2. Queries (rows): what layer 1 wrote into `=` (C rows), the token `=`, the last position. Keys
    (columns): embeddings of a position (C), what layer 1 wrote into it (C)."""
    ov2: Bool[Tensor, " 2*C"]
    """Rows whose output in layer 2 is kept: embeddings (C), what layer 1 wrote (C)."""
    frequencies: Bool[Tensor, " F"]
    """Frequencies of OV2(e_n) that are kept; the constant is always kept."""
    around: bool = True
    """Whether MLP2 also reads the residual of `=` from before layer 2, and the unembedding that from before MLP2."""


class Blocks:
    """Masks over the C = K + T table rows, and the named parts of the circuit built from them."""

    def __init__(self, task: Task):
        vocabulary = Vocabulary(task)
        self.K, self.C = vocabulary.size, vocabulary.size + task.length
        self.none = torch.zeros(self.C, dtype=torch.bool)
        self.numbers = self.rows(vocabulary.numbers)
        self.variables = self.rows(vocabulary.variables)
        self.prefix = self.rows(range(self.K, self.K + task.prefix))
        self.slots = self.rows(self.K + slot for slot in operand_slots(task))
        self.equals = self.rows((vocabulary.equals, self.C - 1))  # the token and its position always occur together
        self.qk1 = {
            "= to slots": self.equals[:, None] & self.slots,
            "numbers to variables": self.numbers[:, None] & self.variables,
            "positions to variables": self.prefix[:, None] & self.variables,
            "positions to positions": self.prefix[:, None] & self.prefix,
        }
        self.qk1_named = torch.stack(list(self.qk1.values())).any(0)
        self.fetched = self.keys(self.numbers)
        self.identity = self.qk2(copied=self.variables, keys=self.keys(copied=self.variables))

    def rows(self, indices: Iterable[int]) -> Bool[Tensor, " C"]:
        """A mask of these rows."""
        mask = self.none.clone()
        mask[list(indices)] = True
        return mask

    def keys(
        self, embedded: Bool[Tensor, " C"] | None = None, copied: Bool[Tensor, " C"] | None = None
    ) -> Bool[Tensor, " {2*self.C}"]:
        """A mask of layer-2 keys: rows of a position's embeddings, and rows that layer 1 copied into it."""
        return torch.cat([self.none if embedded is None else embedded, self.none if copied is None else copied])

    def qk2(
        self,
        keys: Bool[Tensor, " {2*self.C}"],
        copied: Bool[Tensor, " C"] | None = None,
        token: bool = False,
        position: bool = False,
    ) -> Bool[Tensor, "{self.C+2} {2*self.C}"]:
        """A mask of layer-2 scores; queries are rows that layer 1 copied into `=`, the token `=`, the last position."""
        queries = torch.cat([self.none if copied is None else copied, torch.tensor([token, position])])
        return queries[:, None] & keys

    def everything(self, n_frequencies: int) -> Kept:
        """The whole network."""
        ones, C = lambda *size: torch.ones(size, dtype=torch.bool), self.C
        return Kept(ones(C, C), ones(C), ones(C + 2, 2 * C), ones(2 * C), ones(n_frequencies))


def variants(task: Task, frequencies: Bool[Tensor, " F"]) -> dict[tuple[str, str], Kept]:
    """What is kept in each row of the results, by group and name; `frequencies` are those of the network."""
    b = Blocks(task)
    keep: dict[str, Changes] = {
        "QK1: the four blocks": {"qk1": b.qk1_named},
        "OV1: variables": {"ov1": b.variables},
        "QK2: identity block": {"qk2": b.identity},
        "OV2: numbers, key frequencies": {"ov2": b.fetched, "frequencies": frequencies},
        "MLP2: alone": {"around": False},
    }
    to_variables = b.qk1["numbers to variables"] | b.qk1["positions to variables"]
    remove: dict[str, Changes] = {
        **{f"QK1: {name}": {"qk1": ~block} for name, block in b.qk1.items()},
        "QK1: both to variables": {"qk1": ~to_variables},
        "QK1: the four blocks": {"qk1": ~b.qk1_named},
        "OV1: variables": {"ov1": ~b.variables},
        "QK2: identity block": {"qk2": ~b.identity},
        "QK2: = to operand slots": {"qk2": ~b.qk2(b.keys(b.slots), token=True, position=True)},
        "OV2: key frequencies": {"frequencies": ~frequencies},
        "OV2: numbers": {"ov2": ~b.fetched},
    }
    section_5: Changes = {}
    for changes in keep.values():
        section_5 |= changes
    together: dict[str, Changes] = {WHOLE: {}, SECTION_5: section_5}
    together |= {name: section_5 | changes for name, changes in _with_literals(b).items()}
    together[COMPLEMENT] = {}
    for name in ("QK1: the four blocks", "OV1: variables", "QK2: identity block", "OV2: key frequencies"):
        together[COMPLEMENT] |= remove[name]
    groups = {"together": together, "kept alone": keep, "removed alone": remove}
    full = b.everything(len(frequencies))
    kept = {}
    for group, rows in groups.items():
        for name, changes in rows.items():
            kept[group, name] = replace(full, **changes)
    return kept


def _with_literals(b: Blocks) -> dict[str, Changes]:
    """The parts through which literal operands are found, added to section 5's parts, by the name of the row."""
    slots = b.keys(b.slots)
    numbers = b.keys(b.numbers)
    variables = b.keys(copied=b.variables)
    of_position = {
        POSITION_SLOTS: slots,
        POSITION_NUMBERS: numbers,
        SECTION_7: slots | numbers,
        SECTION_7_STEP: slots | numbers | variables,
    }
    qk2 = {name: b.identity | b.qk2(keys, position=True) for name, keys in of_position.items()}
    for name, keys in ((EQUALS_SLOTS, slots), (EQUALS_BOTH, slots | numbers)):
        qk2[name] = b.identity | b.qk2(keys, token=True, position=True)
    changes: dict[str, Changes] = {name: {"qk2": scores} for name, scores in qk2.items()}
    for name, keys in ((COPIED_SLOTS, slots), (COPIED_ALL, torch.ones_like(slots))):
        scores = qk2[EQUALS_SLOTS] | b.qk2(keys, copied=b.numbers)
        changes[name] = {"qk2": scores, "ov1": b.variables | b.numbers}
    return changes


def kept_tables(full: Tables, keep: Kept, task: Task) -> Tables:
    """The tables of one model (without the axis M) with zeros for the entries that are not kept."""
    C, N = len(full.embeddings), task.modulus
    copied = full.equal_rows[:C] * keep.ov1[:, None]
    equal_rows = torch.cat([copied, full.equal_rows[C:]])
    both = torch.cat([full.embeddings, copied])
    queries = torch.cat([copied, full.embeddings[[Vocabulary(task).equals, C - 1]]])
    of_layer_1, of_equals = (both @ (queries @ full.QK2).T * keep.qk2.T).split([C, 2], 1)
    values = both @ full.OV2 * keep.ov2[:, None]
    values[:N] = restricted_to(values[None, :N], keep.frequencies)[0]
    return replace(
        full,
        queries_1=full.queries_1 @ full.keys_1.T * keep.qk1,
        keys_1=torch.eye(C, dtype=both.dtype, device=both.device),
        equal_rows=equal_rows,
        both=both,
        queries_2=equal_rows @ full.QK2,
        scores_2=torch.cat([of_layer_1, of_equals.sum(1, keepdim=True)], 1),
        outputs=torch.cat([equal_rows * keep.around, values]),
    )


@torch.no_grad()
def kept_logits(model: Stack, tokens: Int[Tensor, "B T"], keep: Kept) -> Float[Tensor, "B N"]:
    """Answer logits of one model (a stack with M = 1) with only some parts kept."""
    network = table_forward(model.config, model.flat.device)
    weights = unstacked(model)
    tables = kept_tables(network.tables(weights), keep, model.config.task)
    return torch.cat([network.forward(weights, part, tables).read(keep.around) for part in tokens.split(CHUNK)])


@dataclass(frozen=True)
class CircuitAlone:
    """Which sequences of each evaluation set are answered correctly with parts kept or removed.

    All rows are evaluated on the same sequences.
    """

    rows: list[tuple[str, str]]
    """Group (`together`, `kept alone` or `removed alone`) and name."""
    sets: list[str]
    correct: np.ndarray  # (rows, sets, sequences), bool

    @property
    def n(self) -> int:
        """Number of sequences of each set."""
        return self.correct.shape[2]

    @property
    def accuracy(self) -> np.ndarray:
        """The accuracy, (rows, sets)."""
        return self.correct.mean(2)

    def answers(self, group: str, name: str) -> np.ndarray:
        """Which sequences are answered correctly, (sets, sequences)."""
        return self.correct[self.rows.index((group, name))]

    def row(self, group: str, name: str) -> np.ndarray:
        """The accuracy on each set, (sets,)."""
        return self.answers(group, name).mean(1)

    def with_variables(self, n_vars: int) -> np.ndarray:
        """Which sets have sums with `n_vars` variables, (sets,)."""
        return np.array([name.startswith(f"{n_vars}-var") for name in self.sets])

    def relative(self, group: str, name: str) -> float:
        """Mean accuracy over the sets divided by that of the whole network.

        This is the faithfulness of the kept parts; for `COMPLEMENT` it is small if the named parts are complete.
        """
        return float(self.row(group, name).mean() / max(self.row("together", WHOLE).mean(), 1 / self.n))

    def worst_set(self, group: str, name: str) -> int:
        """The index of the set that loses most accuracy."""
        return int((self.row("together", WHOLE) - self.row(group, name)).argmax())


def circuit_alone(model: Stack, config: Config, seen: Bool[Tensor, "N N"], n: int = SEQUENCES) -> CircuitAlone:
    """The accuracy of one model with parts kept and removed, on `n` sequences of each evaluation set (section 5)."""
    require(config, "the circuit alone", *PAPER_NEEDS)
    exam = Exam([config], seen[None], EVAL_SETS, n)
    rows = variants(config.task, network_frequencies(model)[0].cpu())
    correct = [kept_logits(model, exam.tokens[0], keep).argmax(-1) == exam.labels[0] for keep in rows.values()]
    return CircuitAlone(list(rows), exam.names, torch.stack(correct).view(len(rows), len(exam.names), n).numpy())


@per_network(slow=True)
def circuit_alone_of(network: Network) -> CircuitAlone:
    """The accuracy of a network with parts of its circuit kept and removed."""
    return circuit_alone(network.stack, network.config, network.seen, min(network.n, SEQUENCES))
