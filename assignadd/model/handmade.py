"""A model written down, not trained: it solves the task by the paper's mechanism, and every measure is 1.0 on it.

The residual stream is a row of one-hot groups, orthogonal as in the paper's appendix C, so each matrix is a short sum
of outer products and nothing interferes. e_x is a token, p_t a position, c_v "variable v was copied here" (Phi_1 e_v),
a_n "the value n was fetched" (Phi_2 e_n); the last group holds the answer.

    W_E = e, W_pos = p
    QK1 = G [ p_t -> p_{t-1} (t up to T-3),  p_{T-2} -> p_{T-4},  e_= -> p_{T-3} + p_{T-2} ]
    OV1 = e_v -> c_v
    QK2 = 2G [ c_v -> c_v ] + G [ e_= -> all e_n + p_{T-3} + p_{T-2} ]
    OV2 = A [ e_n -> a_n ]
    MLP2 adds the two values (`fourier_mlp`); W_U reads the answer.

Layer 1. An assigned number copies the variable before it; `=` copies half of each operand. The second operand's slot
does not attend to the slot before it but to `+`, so that neither operand slot ever copies a variable: were c_v of the
first operand copied into the second's slot, `=` would find it there. Numbers and PAD have no image under OV1, so a
literal operand copies nothing into `=`.

Layer 2, scores of `=`. The weights 1/2 in layer 1 make a match worth 2G/2 = G:

    number whose variable is an operand    G (number) + G (match)           = 2G
    literal operand                        G (number) + G (operand slot)    = 2G
    any other assigned number              G (number)                       =  G
    variable in an operand slot            G (operand slot)                 =  G
    an operand's variable at position 0    G (match; it can only attend to, and copy, itself) = G
    `=` itself                             2G (1/4 + 1/4) at most           =  G
    +, PAD, other variables                                                    0

Hence exactly two positions lead by at least G and share the attention equally: the attention output is half of
A (a_n + a_m), whatever the type of the sequence. A variable in both slots (`b+b`) gets all of it, with the same output.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from assignadd.config import Config, ConfigError, Model, Task
from assignadd.model.stack import Stack, flatten, weight_shapes
from assignadd.task.positions import fixed_positions
from assignadd.task.vocabulary import Vocabulary

# G: what is not attended to leaks less than T e^-32 < 4e-12 of the attention even at the longest T = 256.
SCORE = 32.0
# A: the values outweigh what else `=` holds (e_=, p_{T-1}, the c_v / 2: squared norm at most 2.5 against A^2 / 2 =
# 128), so its residual before the MLP has cosine .99 with OV2(n) + OV2(m), as in a trained network (figure
# cosine_sim_combined).
VALUE = 16.0
# With all its frequencies the MLP leads by .3 or more for every odd N; times this, the cross entropy is below 1e-5.
SHARPNESS = 50.0
# Phases per frequency (see `fourier_mlp`).
PHASES = 5
# Settings of the task for which a model is written down, besides an odd modulus.
ACCEPTED = {"operation": "add", "operands": 2, "hops": 0, "rebinding": 0}


def handmade(config: Config | None = None, frequencies: Sequence[int] | None = None) -> Stack:
    """A stack of one model that solves `config.task` exactly, in the dtype of `config.numerics`.

    The task adds two operands modulo an odd number. `config.model` is replaced: two layers, one head, an MLP in the
    second layer alone, and widths as the construction needs them. The MLP adds by all frequencies, or by these.
    """
    config = config or Config()
    task = config.task
    _check_task(task)
    W_in, W_out = _adder(task.modulus, frequencies)
    at = _Residual(task)
    config = dataclasses.replace(config, model=Model(d_model=at.width, d_head=at.width, d_mlp=(None, W_in.shape[1])))
    weights = {name: torch.zeros(1, *shape, dtype=torch.float64) for name, shape in weight_shapes(config).items()}
    weights["embed.W_E"][0, :, at.token] = torch.eye(len(at.token)).double()
    weights["pos_embed.W_pos"][0, :, at.position] = torch.eye(len(at.position)).double()
    for layer, (QK, OV) in enumerate((_copy_variables(at), _fetch_values(at))):
        # W_K = W_O = 1, so that W_Q and W_V are the circuits themselves (QK after the division by sqrt(d_head)).
        circuits = {"W_Q": QK * math.sqrt(at.width), "W_K": torch.eye(at.width), "W_V": OV, "W_O": torch.eye(at.width)}
        for name, matrix in circuits.items():
            weights[f"blocks.{layer}.attn.{name}"][0, 0] = matrix
    weights["blocks.1.mlp.W_in"][0, at.value] = W_in * 2 / VALUE  # the attention brings A/2 (a_n + a_m)
    weights["blocks.1.mlp.W_out"][0, :, at.answer] = W_out * SHARPNESS
    weights["unembed.W_U"][0, at.answer] = torch.eye(len(at.answer)).double()
    return Stack(config, flatten(config, weights).to(getattr(torch, config.numerics.dtype)))


class _Residual:
    """Which coordinates of the residual stream hold what, one group after another."""

    def __init__(self, task: Task):
        tokens = Vocabulary(task)
        sizes = [tokens.size, task.length, task.n_vars, task.modulus, task.modulus]
        self.width = sum(sizes)
        self.token, self.position, self.copied, self.value, self.answer = torch.arange(self.width).split(sizes)
        self.number = self.token[list(tokens.numbers)]
        self.variable = self.token[list(tokens.variables)]
        self.equals = self.token[tokens.equals]
        self.plus, self.first, self.second, _ = fixed_positions(task).values()
        self.operands = self.position[[self.first, self.second]]

    def zeros(self) -> Tensor:
        """A matrix from the residual stream to itself, (width, width)."""
        return torch.zeros(self.width, self.width, dtype=torch.float64)


def _check_task(task: Task) -> None:
    """Refuses a task for which no model is written down here."""
    for name, accepted in ACCEPTED.items():
        if getattr(task, name) != accepted:
            raise ConfigError(f"task.{name}", getattr(task, name), f"{accepted} for the hand-made model")
    if task.modulus % 2 == 0:
        raise ConfigError("task.modulus", task.modulus, "an odd number for the hand-made model")


def _copy_variables(at: _Residual) -> tuple[Tensor, Tensor]:
    """Layer 1: QK1, the previous-token head and the view of `=` on its operands; OV1, which copies variables."""
    QK, OV = at.zeros(), at.zeros()
    QK[at.position[1 : at.second], at.position[: at.first]] = SCORE
    QK[at.position[at.second], at.position[at.plus]] = SCORE
    QK[at.equals, at.operands] = SCORE
    OV[at.variable, at.copied] = 1
    return QK, OV


def _fetch_values(at: _Residual) -> tuple[Tensor, Tensor]:
    """Layer 2: QK2, which matches variables and finds literals; OV2, which fetches values."""
    QK, OV = at.zeros(), at.zeros()
    QK[at.copied, at.copied] = 2 * SCORE
    QK[at.equals, torch.cat([at.number, at.operands])] = SCORE
    OV[at.number, at.value] = VALUE
    return QK, OV


def _adder(N: int, frequencies: Sequence[int] | None) -> tuple[Float[Tensor, "N h"], Float[Tensor, "h N"]]:
    """The MLP with all frequencies, or with these; a ValueError where these do not suffice to add."""
    if frequencies is None:
        return fourier_mlp(N, range(1, N // 2 + 1))
    chosen = sorted(set(frequencies))
    if not chosen or chosen[0] < 1 or chosen[-1] > N // 2:
        raise ValueError(f"frequencies = {tuple(frequencies)}: expected numbers from 1 to N // 2 = {N // 2}")
    W_in, W_out = fourier_mlp(N, chosen)
    logits = torch.relu(W_in[:, None] + W_in) @ W_out  # (N, N, N)
    if not (logits.argmax(-1) == (torch.arange(N)[:, None] + torch.arange(N)) % N).all():
        raise ValueError(f"frequencies = {tuple(frequencies)} do not tell all sums mod {N} apart: add some")
    return W_in, W_out


def fourier_mlp(N: int, frequencies: Sequence[int]) -> tuple[Float[Tensor, "N h"], Float[Tensor, "h N"]]:
    """A ReLU layer that adds mod N: W_in, W_out with relu(x @ W_in) @ W_out largest at n + m for x = a_n + a_m.

    Neuron (k, j) has the preactivation of the paper (section 5.1, figure preacts) with alpha = beta = phi_j = 2 pi j /
    P. With w = 2 pi k / N,

        cos(w n + phi) + cos(w m + phi) = D cos(w (n + m) / 2 + phi),    D = 2 cos(w (n - m) / 2).

    ReLU(cos x) = 1/pi + cos(x) / 2 + 2/(3 pi) cos(2x) - 2/(15 pi) cos(4x) + ...: its second harmonic has the frequency
    of n + m itself, and an even harmonic does not see the sign of D. The read-out cos(w s + 2 phi_j), summed over the P
    phases, keeps that harmonic and gives  P |D| / (3 pi) cos(w (n + m - s)),  largest at s = n + m for each k at once.
    The sum over P phases also lets harmonics h = 2 mod P through. P = 3 would let the first through (h = -1), P = 4 the
    conjugate of the second (h = -2); with P = 5 it is the eighth (h = -8), 1/21 as strong, and yet weaker ones.

    For even N this ties when m = n + N/2: D vanishes for odd k, and even k cannot tell s from s + N/2.
    """
    k = torch.tensor(list(frequencies)).double()[:, None, None]
    phase = 2 * math.pi * torch.arange(PHASES).double()[:, None] / PHASES
    turn = 2 * math.pi * k * torch.arange(N).double() / N  # (K, 1, N)
    read_out = torch.cos(turn + 2 * phase)  # (K, P, N)
    scale = 3 * math.pi / (2 * PHASES * len(k))  # a mean over frequencies of |u| cos(w (n + m - s))
    return torch.cos(turn + phase).flatten(0, 1).T, scale * read_out.flatten(0, 1)
