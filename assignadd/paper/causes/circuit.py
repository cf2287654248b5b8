"""Accuracy with only the parts of the circuit that the paper names, and with one part removed.

Section 5 describes how variables are looked up and added: four blocks of QK1 (figure qk0), OV1 of variables, QK2
between copied variables (the identity block), OV2 of numbers at the network's frequencies, and MLP2, which reads only
layer 2's attention output and is all that the unembedding reads. Section 7 (eq. init_w0) describes how literals are
found: the last position p_T is a query in QK2 with a high score for the operand slots and for numbers. As token `=` and
last position always occur together, this block is kept once for the row of the position only, and once for both rows.

Every score and every output of attention is a sum over the C = K + T embedding rows [W_E; W_pos] (see `model.table`).
A part of the circuit is therefore a block of a table, and it is removed by setting that block to zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Config, Task
from assignadd.measures.addition import network_frequencies, restricted_to
from assignadd.model.accuracy import Exam
from assignadd.model.architecture import PAPER_NEEDS, require
from assignadd.model.forward import CHUNK, unstacked
from assignadd.model.stack import Stack
from assignadd.model.table import TableForward, Tables
from assignadd.network import Network, per_network
from assignadd.task.evalsets import EVAL_SETS
from assignadd.task.positions import operand_slots
from assignadd.task.vocabulary import Vocabulary

SEQUENCES = 2000  # of each evaluation set
LOSS = 0.1  # a part counts as needed if removing it costs this much accuracy on some evaluation set
# Names of rows of the results, by what is kept.
WHOLE, SECTION_5, COMPLEMENT = "the network", "section 5's parts", "none of section 5's parts"
SECTION_7, SECTION_7_EQUALS = "+ section 7's block, of the position", "+ section 7's block, of = and its position"
# Names of rows of the results, by what is removed.
QK1_EQUALS, QK1_NUMBERS = "QK1: = to slots", "QK1: numbers to variables"
QK1_VARIABLES, QK1_POSITIONS = "QK1: positions to variables", "QK1: positions to positions"
QK2_IDENTITY = "QK2: identity block"
REMOVED = (QK1_EQUALS, QK1_NUMBERS, QK1_VARIABLES, QK1_POSITIONS, QK2_IDENTITY)


@dataclass(frozen=True)
class Kept:
    """What is kept of a network: masks of the entries of its tables, and whether the last layer's residual is read."""

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
    residual: bool = True
    """Whether MLP2 also reads the residual of `=` from before layer 2, and the unembedding that from before MLP2."""


def variants(task: Task, frequencies: Bool[Tensor, " F"]) -> dict[str, Kept]:
    """What is kept in each row of the results, by the row's name; `frequencies` are the network's.

    Every part that the paper names is a mask: a group of rows of the tables (C,), or a block of scores, whose rows are
    queries and whose columns are keys.
    """
    vocabulary = Vocabulary(task)
    K = vocabulary.size  # the first K rows are tokens, the others positions
    C = K + task.length

    def rows(indices: Iterable[int]) -> Bool[Tensor, " C"]:
        """A mask of the table rows with these indices."""
        mask = torch.zeros(C, dtype=torch.bool)
        mask[list(indices)] = True
        return mask

    none, numbers, variables = rows([]), rows(vocabulary.numbers), rows(vocabulary.variables)
    slots = rows(K + slot for slot in operand_slots(task))
    prefix = rows(range(K, K + task.prefix))
    equals = rows((vocabulary.equals, C - 1))  # the token and its position
    qk1_blocks = {
        QK1_EQUALS: equals[:, None] & slots,
        QK1_NUMBERS: numbers[:, None] & variables,
        QK1_VARIABLES: prefix[:, None] & variables,
        QK1_POSITIONS: prefix[:, None] & prefix,
    }
    qk1 = torch.stack(list(qk1_blocks.values())).any(0)  # all four blocks
    # Queries of layer 2 are what layer 1 wrote, the token `=`, and the last position; keys are embeddings, and what
    # layer 1 wrote. The identity block has copied variables alone. Section 7's has slots and numbers as keys.
    of_copies = torch.cat([variables, torch.tensor([False, False])])  # (C + 2,), as the next two
    of_position = torch.cat([none, torch.tensor([False, True])])
    of_token_and_position = torch.cat([none, torch.tensor([True, True])])
    identity = of_copies[:, None] & torch.cat([none, variables])
    literals = torch.cat([slots | numbers, none])  # (2C,)
    ones = partial(torch.ones, dtype=torch.bool)  # masks that keep all entries
    whole = Kept(ones(C, C), ones(C), ones(C + 2, 2 * C), ones(2 * C), torch.ones_like(frequencies))
    section_5 = Kept(qk1, variables, identity, torch.cat([numbers, none]), frequencies, residual=False)
    return {
        WHOLE: whole,
        SECTION_5: section_5,
        SECTION_7: replace(section_5, qk2=identity | of_position[:, None] & literals),
        SECTION_7_EQUALS: replace(section_5, qk2=identity | of_token_and_position[:, None] & literals),
        # OV2 keeps every row, but of numbers only the other frequencies.
        COMPLEMENT: Kept(~qk1, ~variables, ~identity, whole.ov2, ~frequencies),
        **{name: replace(whole, qk1=~block) for name, block in qk1_blocks.items()},
        QK2_IDENTITY: replace(whole, qk2=~identity),
    }


def kept_tables(full: Tables, keep: Kept, task: Task) -> Tables:
    """The tables of one model (without the axis M), with zeros for the entries that are not kept."""
    C, N = len(full.embeddings), task.modulus
    copied = full.equal_rows[:C] * keep.ov1[:, None]  # what layer 1 writes for each row, (C, d)
    equal_rows = torch.cat([copied, full.equal_rows[C:]])  # (C + 1, d)
    key_rows = torch.cat([full.embeddings, copied])  # (2C, d)
    # The last row of `equal_rows` is E_= + P_=. Here its two parts are separate queries, of which one may be left out.
    token_and_position = full.embeddings[[Vocabulary(task).equals, C - 1]]
    queries = torch.cat([copied, token_and_position])  # (C + 2, d)
    scores = (key_rows @ (queries @ full.QK2).T) * keep.qk2.T  # (2C, C + 2)
    scores_of_copies, scores_of_equals = scores.split([C, 2], 1)
    values = (key_rows @ full.OV2) * keep.ov2[:, None]  # (2C, d)
    values[:N] = restricted_to(values[None, :N], keep.frequencies)[0]  # the first N rows are numbers
    return replace(
        full,
        # Layer 1 multiplies queries and keys: with an identity as the keys, these queries are its scores.
        queries_1=(full.queries_1 @ full.keys_1.T) * keep.qk1,
        keys_1=torch.eye(C, dtype=key_rows.dtype, device=key_rows.device),
        equal_rows=equal_rows,
        key_rows=key_rows,
        queries_2=equal_rows @ full.QK2,
        scores_2=torch.cat([scores_of_copies, scores_of_equals.sum(1, keepdim=True)], 1),  # (2C, C + 1)
        outputs=torch.cat([equal_rows * keep.residual, values]),  # (3C + 1, d)
    )


@torch.no_grad()
def kept_logits(model: Stack, tokens: Int[Tensor, "B T"], keep: Kept) -> Float[Tensor, "B N"]:
    """Answer logits of one model (a stack with M = 1) with only the parts that `keep` keeps."""
    table_forward = TableForward(model.config, model.flat.device)
    weights = unstacked(model)
    tables = kept_tables(table_forward.tables(weights), keep, model.config.task)
    logits = []
    for chunk in tokens.split(CHUNK):
        activations = table_forward.forward(weights, chunk, tables)
        if keep.residual:  # what MLP2 writes and the residual before it, times W_U
            logits.append(activations.logits_by_read_out)
        else:  # what MLP2 writes alone, times W_U: `read_out` is W_out W_U
            logits.append(activations.neurons @ activations.read_out)
    return torch.cat(logits)


@dataclass(frozen=True)
class CircuitAlone:
    """Which sequences of each evaluation set a network answers correctly with parts kept or removed.

    There is a row for each choice of parts; all rows have the same sequences.
    """

    names: list[str]
    """What is kept or removed in each row."""
    sets: list[str]
    correct: np.ndarray  # (rows, sets, sequences), bool

    @property
    def n(self) -> int:
        """The number of sequences of each set."""
        return self.correct.shape[2]

    def correct_in(self, name: str) -> np.ndarray:
        """Which sequences are answered correctly in the row `name`, (sets, sequences)."""
        return self.correct[self.names.index(name)]

    def accuracy(self, name: str) -> np.ndarray:
        """The accuracy on each set in the row `name`, (sets,)."""
        return self.correct_in(name).mean(1)

    def with_variables(self, n_vars: int) -> np.ndarray:
        """Which sets have sums with `n_vars` variables, (sets,)."""
        return np.array([name.startswith(f"{n_vars}-var") for name in self.sets])

    def relative(self, name: str) -> float:
        """Faithfulness of the parts kept in the row `name`: their mean accuracy divided by the whole network's."""
        accuracy_of_whole = max(self.accuracy(WHOLE).mean(), 1 / self.n)  # not 0
        return float(self.accuracy(name).mean() / accuracy_of_whole)


def circuit_alone(model: Stack, config: Config, seen: Bool[Tensor, "N N"], n: int = SEQUENCES) -> CircuitAlone:
    """The accuracy of one model with parts kept and removed, on `n` sequences of each evaluation set (section 5)."""
    require(config, "the circuit alone", *PAPER_NEEDS)
    exam = Exam([config], seen[None], EVAL_SETS, n)
    kept = variants(config.task, network_frequencies(model)[0].cpu())  # by the name of the row
    correct = [kept_logits(model, exam.tokens[0], keep).argmax(-1) == exam.labels[0] for keep in kept.values()]
    by_set = torch.stack(correct).view(len(kept), len(exam.names), n)  # an exam has one set after the other
    return CircuitAlone(list(kept), exam.names, by_set.numpy())


@per_network(slow=True)
def circuit_alone_of(network: Network) -> CircuitAlone:
    """The accuracy of a network with parts of its circuit kept and removed."""
    return circuit_alone(network.stack, network.config, network.seen, min(network.n, SEQUENCES))
