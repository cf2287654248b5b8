"""Path patching: what is lost when paths between two components, one or many at once, are replaced by their means.

A path is what one component contributes to the input of another at tokens of one role. It is replaced by its mean over
all tokens of this role in the batch. All other paths carry what their senders compute, and everything after a receiver
is computed again. The attention pattern of layer 1 stays that of the whole network. The direct contribution of each
component to the logits is exact, since logits are a sum. The paper does not patch paths.

The quality of circuits is that of the MIB benchmark (Mueller et al., 2025, arXiv 2504.13151, section 3.1). A ranking of
n paths gives a circuit of every size: its first int(k n) paths are kept, all others are replaced by their means at
once. With m(C) the mean margin of the right answer, the faithfulness of the circuit C is

    f = (m(C) - m(no path)) / (m(network) - m(no path)).

CPR, the integrated circuit performance ratio, is the area under f over the ten sizes k in `PROPORTIONS`, by the
trapezoidal rule; higher is better. CMD, the integrated circuit-model distance, is the area between f and 1; 0 is best.
As in the benchmark, paths are ranked by their effect for CPR, and by its absolute value for CMD.

The benchmark's margin is the logit of the right answer minus that of another prompt's answer. Here it is minus the
mean of all logits, which is the mean over other answers drawn at random up to a factor that f does not depend on. An
effect is the margin lost when one path is replaced alone; sequences with even index rank the paths, odd ones give m.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.measures.sequences import sequences
from assignadd.model.architecture import PAPER_NEEDS, require
from assignadd.model.last_layer import LastLayer
from assignadd.model.stack import Stack
from assignadd.network import Network, per_network
from assignadd.task.positions import Positions, answers

# Every token has exactly one of these roles.
TOKEN_ROLES = (
    "operand variable", "operand number", "other variable", "other number", "PAD", "+", "first", "second", "=",
)  # fmt: skip
EMBEDDING, LAYER_1, LAYER_2, MLP2, LOGITS = "embedding", "layer 1", "layer 2", "MLP2", "logits"
QUERY, KEY, VALUE = "query", "key", "value"
PROPORTIONS = np.array((0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0))
# The weight of each size in the trapezoidal rule.
WEIGHTS = (np.diff(PROPORTIONS, prepend=PROPORTIONS[0]) + np.diff(PROPORTIONS, append=PROPORTIONS[-1])) / 2
BY_EFFECT, BY_SIZE = "by effect", "by absolute effect"
# Sequences of each type: the paths run the network about a hundred times.
SEQUENCES = 600


@dataclass(frozen=True)
class Path:
    """A path from a component at tokens of a role to layer 1, layer 2's query, key or value, MLP2, or the logits."""

    sender: str
    role: str
    receiver: str
    at: str = "="
    """The role of the receiving tokens; `=` unless the receiver is layer 1."""


# The paths that the paper describes, on sums with one variable.
PAPER_PATHS = frozenset(
    [
        Path(EMBEDDING, "operand variable", LAYER_1, "operand number"),
        Path(LAYER_1, "operand number", KEY),
        Path(LAYER_1, "=", QUERY),
        *(Path(EMBEDDING, slot, LAYER_1) for slot in ("first", "second")),
        *(Path(EMBEDDING, role, VALUE) for role in ("operand number", "first", "second")),
        Path(LAYER_2, "=", MLP2),
        Path(MLP2, "=", LOGITS),
    ]
)


@dataclass(frozen=True)
class PathAnswers:
    """Which sequences are answered correctly by the whole network, with each path patched, and with few paths kept."""

    whole: Bool[Tensor, " B"]
    patched: dict[Path, Bool[Tensor, " B"]]
    paper_only: Bool[Tensor, " B"]
    """With all paths patched at once that are not in `PAPER_PATHS`."""
    margins: dict[Path, Float[Tensor, " B"]]
    """The right answer's logit minus the mean logit, with each path patched."""

    @property
    def effects(self) -> dict[Path, float]:
        """The accuracy lost when each path is patched."""
        full = self.whole.double().mean().item()
        return {path: full - correct.double().mean().item() for path, correct in self.patched.items()}


def token_roles(positions: Positions) -> dict[str, Bool[Tensor, "B T"]]:
    """A mask of the tokens with each of `TOKEN_ROLES`."""
    operand_variables = positions.mask("first_variable") | positions.mask("second_variable")
    assigned = positions.mask("assigned")
    operand_numbers = assigned & ~positions.mask("distractors")
    masks = (
        operand_variables,
        operand_numbers,
        positions.mask("variables") & ~operand_variables,
        assigned & ~operand_numbers,
        *(positions.mask(role) for role in ("pads", "plus", "first", "second", "equals")),
    )
    return dict(zip(TOKEN_ROLES, masks, strict=True))


class PathPatching:
    """Forward passes of one model (a stack with M = 1) on one batch of sequences in which paths are patched."""

    @torch.no_grad()
    def __init__(self, stack: Stack, tokens: Int[Tensor, "B T"]):
        task = stack.config.task
        require(stack.config, "path patching", *PAPER_NEEDS)
        self.model, self.labels = LastLayer(stack), answers(task, tokens)
        self.roles = {role: mask for role, mask in token_roles(Positions(task, tokens)).items() if mask.any()}
        self.trace = self.model.trace(tokens)
        self.pattern = self.trace.attention(1)[:, 0].contiguous()  # (B, T, T)
        self.embedding, self.values = self.model.embedded(tokens), self.model.copied(tokens)  # (B, T, d)
        self.layer_1, self.layer_2 = self.pattern @ self.values, self.trace.attention_output
        self.embedding_means, self.layer_1_means = self._means(self.embedding), self._means(self.layer_1)
        self.paths = self._paths()

    @torch.no_grad()
    def answers(self) -> PathAnswers:
        """Which sequences are answered correctly by the whole network, with each path patched, and with few kept."""
        logits = {path: self.logits({path}) for path in self.paths}
        paper_only = self.logits(set(self.paths) - PAPER_PATHS)
        return PathAnswers(
            self._correct(self.trace.logits),
            {path: self._correct(x) for path, x in logits.items()},
            self._correct(paper_only),
            {path: self.margins(x) for path, x in logits.items()},
        )

    @torch.no_grad()
    def direct_parts(self) -> dict[str, Float[Tensor, " B"]]:
        """The contribution of each component to the right answer's logit, minus its mean to all logits."""
        at_equals = {EMBEDDING: self.embedding[:, -1], LAYER_1: self.layer_1[:, -1]}
        at_equals |= {LAYER_2: self.layer_2, MLP2: self.trace.mlp_out}
        return {name: self.margins(self.model.unembedded(part)) for name, part in at_equals.items()}

    @torch.no_grad()
    def logits(self, patched: Collection[Path]) -> Float[Tensor, "B N"]:
        """The answer logits with these paths replaced by their means at once."""
        receivers = {path.receiver for path in patched}
        layer_1 = self._layer_1(patched) if LAYER_1 in receivers else self.layer_1
        before = self.embedding + layer_1
        read = {at: self._read(at, before, layer_1, patched) for at in (KEY, VALUE, QUERY, MLP2, LOGITS)}
        layer_2 = self.layer_2
        if receivers & {LAYER_1, QUERY, KEY, VALUE}:
            layer_2 = self.model.attention_output(self.model.pattern(read[KEY], read[QUERY][:, -1]), read[VALUE])
        mean = self.layer_2.mean(0)
        into_mlp = read[MLP2][:, -1] + (mean if Path(LAYER_2, "=", MLP2) in patched else layer_2)
        into_logits = read[LOGITS][:, -1] + (mean if Path(LAYER_2, "=", LOGITS) in patched else layer_2)
        if Path(MLP2, "=", LOGITS) in patched:
            return self.model.logits(into_logits, self.trace.mlp_out.mean(0).expand_as(into_logits))
        return self.model.logits(into_logits, self.model.mlp(into_mlp))

    def margins(self, logits: Float[Tensor, "B N"]) -> Float[Tensor, " B"]:
        """The right answer's logit minus the mean logit."""
        return logits[torch.arange(len(self.labels)), self.labels] - logits.mean(1)

    def _correct(self, logits: Float[Tensor, "B N"]) -> Bool[Tensor, " B"]:
        return logits.argmax(-1) == self.labels

    def _paths(self) -> list[Path]:
        """Every path between tokens that this batch has."""
        paths = []
        for role, keys in self.roles.items():
            receives = (self.pattern * keys[:, None]).sum(-1) > 0
            paths += [
                Path(EMBEDDING, role, LAYER_1, at) for at, queries in self.roles.items() if (queries & receives).any()
            ]
        for sender in (EMBEDDING, LAYER_1):
            for role in self.roles:
                receivers = (KEY, VALUE, QUERY, MLP2, LOGITS) if role == "=" else (KEY, VALUE)
                paths += [Path(sender, role, receiver) for receiver in receivers]
        return [*paths, Path(LAYER_2, "=", MLP2), Path(LAYER_2, "=", LOGITS), Path(MLP2, "=", LOGITS)]

    @cached_property
    def _changes_of_layer_1(self) -> dict[str, Float[Tensor, "B T d"]]:
        """By the role of the senders, what replaces their contribution through layer 1 to each token by its mean."""
        sent = {role: (self.pattern * keys[:, None]) @ self.values for role, keys in self.roles.items()}
        return {role: self._means(x) - x for role, x in sent.items()}

    def _layer_1(self, patched: Collection[Path]) -> Float[Tensor, "B T d"]:
        """What layer 1 writes if these paths through its attention are replaced."""
        written = self.layer_1.clone()
        for role, change in self._changes_of_layer_1.items():
            receiving_roles = [at for at in self.roles if Path(EMBEDDING, role, LAYER_1, at) in patched]
            if receiving_roles:
                written.addcmul_(self._any(receiving_roles), change)
        return written

    def _read(
        self, receiver: str, before: Float[Tensor, "B T d"], layer_1: Float[Tensor, "B T d"], patched: Collection[Path]
    ) -> Float[Tensor, "B positions d"]:
        """The residual before layer 2 as this receiver reads it, if these paths to it are replaced.

        Keys and values are read at every position, all else at `=`, the last.
        """
        at = slice(None) if receiver in (KEY, VALUE) else slice(-1, None)
        read = before[:, at]
        means = ((EMBEDDING, self.embedding, self.embedding_means), (LAYER_1, layer_1, self.layer_1_means))
        for sender, part, mean in means:
            roles = [role for role in self.roles if Path(sender, role, receiver) in patched]
            if roles:
                read = torch.addcmul(read, self._any(roles)[:, at], mean[:, at] - part[:, at])
        return read

    def _any(self, roles: Sequence[str]) -> Float[Tensor, "B T 1"]:
        """One at the tokens with one of these roles, zero at all others."""
        return torch.stack([self.roles[role] for role in roles]).any(0)[:, :, None].to(self.layer_1.dtype)

    def _means(self, part: Float[Tensor, "B T d"]) -> Float[Tensor, "B T d"]:
        """At every token, the mean of `part` over all tokens of the same role."""
        means = torch.empty_like(part)
        for where in self.roles.values():
            means[where] = part[where].mean(0)
        return means


@dataclass(frozen=True)
class CircuitCurve:
    """The margin of every test sequence with circuits of the sizes `PROPORTIONS`, with no path, and with all."""

    kept: np.ndarray  # (sizes, sequences)
    empty: np.ndarray  # (sequences,)
    whole: np.ndarray  # (sequences,)

    @property
    def gain(self) -> np.ndarray:
        """What all paths together add to the margin of each sequence."""
        return self.whole - self.empty

    @property
    def faithfulness(self) -> np.ndarray:
        """f of each size, (sizes,)."""
        return (self.kept - self.empty).mean(1) / self.gain.mean()

    @property
    def performance(self) -> np.ndarray:
        """The area under the margins of each sequence; its mean divided by that of `gain` is CPR."""
        return WEIGHTS @ (self.kept - self.empty)

    @property
    def distance(self) -> np.ndarray:
        """The signed area to the whole margins of each sequence; its mean divided by that of `gain` is CMD."""
        return (WEIGHTS * np.sign(1 - self.faithfulness)) @ (self.whole - self.kept)


def circuit_curve(patching: PathPatching, ranking: Sequence[int]) -> CircuitCurve:
    """The margins with the first paths of this ranking of `patching.paths`, and all others patched."""
    n = len(ranking)

    def margins(n_kept: int) -> np.ndarray:
        logits = patching.logits({patching.paths[i] for i in ranking[n_kept:]})
        return patching.margins(logits)[1::2].double().numpy()

    by_size = {size: margins(size) for size in sorted({0, n, *(int(k * n) for k in PROPORTIONS)})}
    return CircuitCurve(np.stack([by_size[int(k * n)] for k in PROPORTIONS]), by_size[0], by_size[n])


def rankings(patching: PathPatching, answers: PathAnswers) -> dict[str, list[int]]:
    """The numbers of the paths, ranked by their effects and by their absolute effects on the other half of sequences.

    `answers` are those of the same patching.
    """
    whole = patching.margins(patching.trace.logits)
    effects = torch.stack([(whole - answers.margins[path])[0::2].mean() for path in patching.paths])
    by_value = {BY_EFFECT: effects, BY_SIZE: effects.abs()}
    return {name: x.argsort(descending=True, stable=True).tolist() for name, x in by_value.items()}


@per_network()
def _sequences(network: Network) -> dict[int, Tensor]:
    """Sequences for the paths, by the number of variables in the sum."""
    n, seen = min(network.n, SEQUENCES), network.seen[None]
    return {k: sequences([network.config], seen, k, n).tokens[0] for k in network.types}


@per_network(slow=True)
def path_answers(network: Network) -> dict[int, PathAnswers]:
    """The answers with each path replaced, by the number of variables in the sum."""
    return {k: PathPatching(network.stack, tokens).answers() for k, tokens in _sequences(network).items()}


@per_network(slow=True)
def path_circuits(network: Network) -> dict[str, CircuitCurve]:
    """What circuits of few paths do on sums with one variable, by the ranking of the paths."""
    patching = PathPatching(network.stack, _sequences(network)[1])
    ranked = rankings(patching, path_answers(network)[1])
    return {name: circuit_curve(patching, ranking) for name, ranking in ranked.items()}


def path_effects(network: Network) -> dict[int, dict[Path, float]]:
    """The accuracy that replacing each path costs, by the number of variables in the sum."""
    return {k: answers.effects for k, answers in path_answers(network).items()}


@per_network(slow=True)
def direct_parts(network: Network) -> dict[int, dict[str, Tensor]]:
    """What each component adds to the correct answer's logit in each sequence, by the number of variables."""
    return {k: PathPatching(network.stack, tokens).direct_parts() for k, tokens in _sequences(network).items()}


def direct_logits(network: Network) -> dict[int, dict[str, float]]:
    """The means of `direct_parts` over the sequences."""
    return {k: {name: x.mean().item() for name, x in parts.items()} for k, parts in direct_parts(network).items()}
