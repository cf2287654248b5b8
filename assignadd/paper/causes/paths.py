"""Path patching on sums with one variable: what is lost when paths between two components are replaced by their means.

A path is what one component contributes to the input of another at tokens of one role. It is replaced by its mean over
all tokens of this role in the batch. All other paths carry what their senders compute, and everything after a receiver
is computed again. The attention pattern of layer 1 stays that of the whole network. The paper does not patch paths.
Sums with one variable use every path that it describes: one operand is looked up, the other is a literal.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.measures.sequences import sequences
from assignadd.model.architecture import PAPER_NEEDS, require
from assignadd.model.last_layer import LastLayer
from assignadd.model.stack import Stack
from assignadd.network import Network, per_network
from assignadd.task.positions import Positions, answers

EMBEDDING, LAYER_1, LAYER_2, MLP2, LOGITS = "embedding", "layer 1", "layer 2", "MLP2", "logits"
QUERY, KEY, VALUE = "query", "key", "value"
# The paths run the network about a hundred times.
SEQUENCES = 600


@dataclass(frozen=True)
class Path:
    """A path from a component at tokens of a role to layer 1, layer 2's query, key or value, MLP2, or the logits."""

    sender: str
    role: str
    receiver: str
    at: str = "="
    """The role of the receiving tokens; `=` unless the receiver is layer 1."""


# The paths that the paper describes.
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
    """Which sequences are answered correctly by the whole network, and with paths replaced by their means."""

    whole: Bool[Tensor, " B"]
    patched: dict[Path, Bool[Tensor, " B"]]
    """With each path replaced alone."""
    paper_only: Bool[Tensor, " B"]
    """With all paths replaced at once that are not in `PAPER_PATHS`."""

    @property
    def effects(self) -> dict[Path, float]:
        """By path, the accuracy that is lost when it is replaced."""
        whole = self.whole.double().mean().item()
        return {path: whole - correct.double().mean().item() for path, correct in self.patched.items()}


def token_roles(positions: Positions) -> dict[str, Bool[Tensor, "B T"]]:
    """By role, a mask of the tokens that have it; every token has one role.

    Operand variables are where the operands are assigned, and operand numbers what is assigned to them there.
    """
    operand_variables = positions.mask("first_variable") | positions.mask("second_variable")
    distractors = positions.mask("distractors")  # assigned numbers that are no operand's value
    return {
        "operand variable": operand_variables,
        "operand number": positions.mask("assigned") & ~distractors,
        "other variable": positions.mask("variables") & ~operand_variables,
        "other number": distractors,
        "PAD": positions.mask("pads"),
        "+": positions.mask("plus"),
        "first": positions.mask("first"),
        "second": positions.mask("second"),
        "=": positions.mask("equals"),
    }


class PathPatching:
    """Forward passes of one model (a stack with M = 1) on one batch of sequences in which paths are replaced."""

    @torch.no_grad()
    def __init__(self, stack: Stack, tokens: Int[Tensor, "B T"]):
        """Runs the whole network once, and keeps what each component writes and its means over tokens of a role."""
        task = stack.config.task
        require(stack.config, "path patching", *PAPER_NEEDS)
        self.model = LastLayer(stack)
        self.labels = answers(task, tokens)
        # A mask of the tokens of each role that occurs, (B, T).
        self.roles = {role: mask for role, mask in token_roles(Positions(task, tokens)).items() if mask.any()}
        self.trace = self.model.trace(tokens)
        self.pattern = self.trace.attention(1)[:, 0].contiguous()  # of layer 1: query, key; (B, T, T)
        self.embedding = self.model.embedded(tokens)  # (B, T, d)
        values = self.model.copied(tokens)  # what layer 1 writes for a unit of attention to a token, (B, T, d)
        self.layer_1 = self.pattern @ values  # (B, T, d)
        self.means = {EMBEDDING: self._means(self.embedding), LAYER_1: self._means(self.layer_1)}
        # By the role of the senders, the mean of what they contribute through layer 1 to each token, minus it.
        self.changes_of_layer_1 = {}
        for role, keys in self.roles.items():
            contribution = (self.pattern * keys[:, None]) @ values  # (B, T, d)
            self.changes_of_layer_1[role] = self._means(contribution) - contribution
        self.paths = self._paths()

    def answers(self) -> PathAnswers:
        """Which sequences are answered correctly: by the whole network, with each path replaced, and with all paths
        replaced that the paper does not describe."""
        return PathAnswers(
            whole=self._correct(self.trace.logits),
            patched={path: self._correct(self.logits({path})) for path in self.paths},
            paper_only=self._correct(self.logits(set(self.paths) - PAPER_PATHS)),
        )

    @torch.no_grad()
    def logits(self, patched: Collection[Path]) -> Float[Tensor, "B N"]:
        """The answer logits with these paths replaced by their means at once."""
        layer_1 = self._layer_1(patched)
        pattern = self.model.pattern(self._read(KEY, layer_1, patched), self._read(QUERY, layer_1, patched)[:, -1])
        layer_2 = self.model.attention_output(pattern, self._read(VALUE, layer_1, patched))  # at `=`, (B, d)
        mean_of_layer_2 = self.trace.attention_output.mean(0)
        into = {}  # what MLP2 and the unembedding read at `=`
        for receiver in (MLP2, LOGITS):
            from_layer_2 = mean_of_layer_2 if Path(LAYER_2, "=", receiver) in patched else layer_2
            into[receiver] = self._read(receiver, layer_1, patched)[:, -1] + from_layer_2
        mlp_out = self.model.mlp(into[MLP2])
        if Path(MLP2, "=", LOGITS) in patched:
            mlp_out = self.trace.mlp_out.mean(0).expand_as(mlp_out)
        return self.model.logits(into[LOGITS], mlp_out)

    def _correct(self, logits: Float[Tensor, "B N"]) -> Bool[Tensor, " B"]:
        """Which sequences are answered correctly with these logits."""
        return logits.argmax(-1) == self.labels

    def _paths(self) -> list[Path]:
        """Every path between tokens that this batch has."""
        paths = []
        for role, keys in self.roles.items():
            attends = (self.pattern * keys[:, None]).sum(-1) > 0  # tokens that attend to this role in layer 1, (B, T)
            for receiving_role, queries in self.roles.items():
                if (queries & attends).any():
                    paths.append(Path(EMBEDDING, role, LAYER_1, receiving_role))
        for sender in (EMBEDDING, LAYER_1):
            for role in self.roles:
                receivers = (KEY, VALUE, QUERY, MLP2, LOGITS) if role == "=" else (KEY, VALUE)
                paths += [Path(sender, role, receiver) for receiver in receivers]
        return [*paths, Path(LAYER_2, "=", MLP2), Path(LAYER_2, "=", LOGITS), Path(MLP2, "=", LOGITS)]

    def _layer_1(self, patched: Collection[Path]) -> Float[Tensor, "B T d"]:
        """What layer 1 writes if these paths through its attention are replaced."""
        written = self.layer_1.clone()
        for role, change in self.changes_of_layer_1.items():
            receiving_roles = [at for at in self.roles if Path(EMBEDDING, role, LAYER_1, at) in patched]
            if receiving_roles:
                written.addcmul_(self._any(receiving_roles), change)
        return written

    def _read(
        self, receiver: str, layer_1: Float[Tensor, "B T d"], patched: Collection[Path]
    ) -> Float[Tensor, "B positions d"]:
        """The residual before layer 2 as this receiver reads it, if these paths to it are replaced.

        `layer_1` is what layer 1 writes. Keys and values are read at every position, all else at `=`, the last.
        """
        positions = slice(None) if receiver in (KEY, VALUE) else slice(-1, None)
        read = (self.embedding + layer_1)[:, positions]
        for sender, part in ((EMBEDDING, self.embedding), (LAYER_1, layer_1)):
            sending_roles = [role for role in self.roles if Path(sender, role, receiver) in patched]
            if sending_roles:
                change = (self.means[sender] - part)[:, positions]
                read = torch.addcmul(read, self._any(sending_roles)[:, positions], change)
        return read

    def _any(self, roles: Sequence[str]) -> Float[Tensor, "B T 1"]:
        """One at the tokens with one of these roles, zero at all others."""
        return torch.stack([self.roles[role] for role in roles]).any(0)[:, :, None].to(self.layer_1.dtype)

    def _means(self, part: Float[Tensor, "B T d"]) -> Float[Tensor, "B T d"]:
        """At every token, the mean of `part` over all tokens of the same role."""
        means = torch.empty_like(part)
        for mask in self.roles.values():
            means[mask] = part[mask].mean(0)
        return means


@per_network(slow=True)
def path_answers(network: Network) -> PathAnswers:
    """The answers of a network to sums with one variable, with each path replaced."""
    batch = sequences([network.config], network.seen[None], 1, min(network.n, SEQUENCES))
    return PathPatching(network.stack, batch.tokens[0]).answers()
