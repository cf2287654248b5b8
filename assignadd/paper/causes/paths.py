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

The benchmark's margin is the logit of the right answer less that of another prompt's answer. Here it is less the mean
of all logits, which is the mean over other answers drawn at random up to a factor that f does not depend on. An effect
is the margin lost when one path is replaced alone; sequences with even index rank the paths, odd ones give m.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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
from assignadd.task.randomness import Stream, permutation

# Every token has exactly one of these roles.
TOKEN_ROLES = (
    "operand variable", "operand number", "other variable", "other number", "PAD", "+", "first", "second", "=",
)  # fmt: skip
EMBEDDING, LAYER_1, LAYER_2, MLP2, LOGITS = "embedding", "layer 1", "layer 2", "MLP2", "logits"
QUERY, KEY, VALUE = "query", "key", "value"
PROPORTIONS = np.array((0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0))
# The weight of each size in the trapezoidal rule.
WEIGHTS = (np.diff(PROPORTIONS, prepend=PROPORTIONS[0]) + np.diff(PROPORTIONS, append=PROPORTIONS[-1])) / 2
BY_EFFECT, BY_SIZE, AT_RANDOM = "by effect", "by absolute effect", "at random"
RANDOM_ORDERS = 5


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
    """The right answer's logit less the mean logit, with each path patched."""

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
    """Forward passes of one model on one batch of sequences in which paths are patched."""

    @torch.no_grad()
    def __init__(self, one: Stack, tokens: Int[Tensor, "B T"]):
        require(one.config, "path patching", *PAPER_NEEDS)
        self.model, self.labels = LastLayer(one), answers(one.config.task, tokens)
        self.roles = token_roles(Positions(one.config.task, tokens))
        self.trace = self.model.trace(tokens)
        self.pattern = self.trace.attention(1)[:, 0].contiguous()  # (B, T, T)
        self.embedding, self.values = self.model.embedded(tokens), self.model.copied(tokens)  # (B, T, d)
        self.layer_1, self.layer_2 = self.pattern @ self.values, self.trace.attention_output
        self.present = {role: where for role, where in self.roles.items() if where.any()}
        self.embedding_means, self.layer_1_means = self._means(self.embedding), self._means(self.layer_1)
        self.paths = self._paths()

    @torch.no_grad()
    def answers(self) -> PathAnswers:
        """Which sequences are answered correctly as they are, with each path patched, and with few paths kept."""
        logits = {path: self.logits({path}) for path in self.paths}
        patched = {path: self._correct(x) for path, x in logits.items()}
        paper_only = self._correct(self.logits(set(self.paths) - PAPER_PATHS))
        margins = {path: self.margins(x) for path, x in logits.items()}
        return PathAnswers(self._correct(self.trace.logits), patched, paper_only, margins)

    @torch.no_grad()
    def direct_parts(self) -> dict[str, Float[Tensor, " B"]]:
        """The contribution of each component to the right answer's logit, less its mean contribution to all logits."""
        at_equals = {EMBEDDING: self.embedding[:, -1], LAYER_1: self.layer_1[:, -1]}
        at_equals |= {LAYER_2: self.layer_2, MLP2: self.trace.mlp_out}
        return {name: self.margins(self.model.unembedded(part)) for name, part in at_equals.items()}

    @torch.no_grad()
    def logits(self, patched: Collection[Path]) -> Float[Tensor, "B N"]:
        """The answer logits with these paths replaced by their means at once."""
        model, trace, receivers = self.model, self.trace, {path.receiver for path in patched}
        layer_1 = self._layer_1(patched) if LAYER_1 in receivers else self.layer_1
        before = self.embedding + layer_1
        key, value, query, into_mlp, into_logits = (
            self._read(receiver, before, layer_1, patched) for receiver in (KEY, VALUE, QUERY, MLP2, LOGITS)
        )
        layer_2 = self.layer_2
        if receivers & {LAYER_1, QUERY, KEY, VALUE}:
            layer_2 = model.attention_output(model.pattern(key, query[:, -1]), value)
        into_mlp, into_logits = (
            read[:, -1] + (self.layer_2.mean(0) if Path(LAYER_2, "=", receiver) in patched else layer_2)
            for receiver, read in ((MLP2, into_mlp), (LOGITS, into_logits))
        )
        if Path(MLP2, "=", LOGITS) in patched:
            return model.logits(into_logits, trace.mlp_out.mean(0).expand_as(into_logits))
        return model.logits(into_logits, model.mlp(into_mlp))

    def margins(self, logits: Float[Tensor, "B N"]) -> Float[Tensor, " B"]:
        """The right answer's logit less the mean logit."""
        return logits[torch.arange(len(self.labels)), self.labels] - logits.mean(1)

    def _correct(self, logits: Float[Tensor, "B N"]) -> Bool[Tensor, " B"]:
        return logits.argmax(-1) == self.labels

    def _paths(self) -> list[Path]:
        """Every path between tokens that this batch has."""
        found = []
        for role, keys in self.present.items():
            received = (self.pattern * keys[:, None]).sum(-1) > 0
            sent_to = [at for at, queries in self.present.items() if (queries & received).any()]
            found += [Path(EMBEDDING, role, LAYER_1, at) for at in sent_to]
        for sender in (EMBEDDING, LAYER_1):
            for role in self.present:
                receivers = (KEY, VALUE, QUERY, MLP2, LOGITS) if role == "=" else (KEY, VALUE)
                found += [Path(sender, role, receiver) for receiver in receivers]
        return [*found, Path(LAYER_2, "=", MLP2), Path(LAYER_2, "=", LOGITS), Path(MLP2, "=", LOGITS)]

    @cached_property
    def _sent(self) -> dict[str, Float[Tensor, "B T d"]]:
        """By the role of the senders, what replaces their contribution through layer 1 to each token by its mean."""
        sent = {role: (self.pattern * keys[:, None]) @ self.values for role, keys in self.present.items()}
        return {role: self._means(x) - x for role, x in sent.items()}

    def _layer_1(self, patched: Collection[Path]) -> Float[Tensor, "B T d"]:
        """What layer 1 writes if these paths through its attention are replaced."""
        written = self.layer_1.clone()
        for role, change in self._sent.items():
            if at := [at for at in self.present if Path(EMBEDDING, role, LAYER_1, at) in patched]:
                written.addcmul_(self._any(at), change)
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
            if roles := [role for role in self.present if Path(sender, role, receiver) in patched]:
                read = torch.addcmul(read, self._any(roles)[:, at], mean[:, at] - part[:, at])
        return read

    def _any(self, roles: Sequence[str]) -> Float[Tensor, "B T 1"]:
        """One at the tokens with one of these roles, zero at all others."""
        return torch.stack([self.present[role] for role in roles]).any(0)[:, :, None].to(self.layer_1.dtype)

    def _means(self, part: Float[Tensor, "B T d"]) -> Float[Tensor, "B T d"]:
        """At every token, the mean of `part` over all tokens of the same role."""
        means = torch.empty_like(part)
        for where in self.present.values():
            means[where] = part[where].mean(0)
        return means


@dataclass(frozen=True)
class CircuitCurve:
    """The margin of every test sequence with circuits of the sizes `PROPORTIONS`, with no path, and as it is."""

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

    @property
    def cpr(self) -> float:
        return float(self.performance.mean() / self.gain.mean())

    @property
    def cmd(self) -> float:
        return float(self.distance.mean() / self.gain.mean())


def circuit_curves(patching: PathPatching, found: PathAnswers) -> dict[str, CircuitCurve]:
    """The curves of the paths ranked by effect, by absolute effect, and in `RANDOM_ORDERS` random orders (their mean).

    `found` are the answers of the same patching.
    """
    paths, whole = patching.paths, patching.margins(patching.trace.logits)
    effects = torch.stack([(whole - found.margins[path])[0::2].mean() for path in paths])
    orders = {
        BY_EFFECT: [effects.argsort(descending=True, stable=True)],
        BY_SIZE: [effects.abs().argsort(descending=True, stable=True)],
        AT_RANDOM: [permutation(len(paths), Stream.ORDER, i) for i in range(RANDOM_ORDERS)],
    }
    sizes = [int(k * len(paths)) for k in PROPORTIONS]

    def margins(kept: Iterable[int]) -> np.ndarray:
        """Of every test sequence, with the paths of these numbers kept."""
        logits = patching.logits(set(paths) - {paths[i] for i in kept})
        return patching.margins(logits)[1::2].double().numpy()

    empty, all_kept = margins([]), margins(range(len(paths)))
    ends = {0: empty, len(paths): all_kept}

    def curve(tried: Sequence[Tensor]) -> CircuitCurve:
        between = {n: np.mean([margins(order[:n].tolist()) for order in tried], 0) for n in {*sizes} - {*ends}}
        return CircuitCurve(np.stack([(ends | between)[n] for n in sizes]), empty, all_kept)

    return {name: curve(tried) for name, tried in orders.items()}


# Sequences of each type: the paths run the network about a hundred times.
SEQUENCES = 600


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
    return circuit_curves(PathPatching(network.stack, _sequences(network)[1]), path_answers(network)[1])


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
