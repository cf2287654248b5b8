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

    The task adds two operands modulo an odd number N. `config.model` is replaced: two layers, one head, an MLP in the
    second layer alone, and widths as the construction needs them. The MLP adds by all frequencies, 1 to N // 2, or by
    these; few of them may not tell all sums apart.
    """
    config = config or Config()
    task = config.task
    _check_task(task)
    W_in, W_out = fourier_mlp(task.modulus, frequencies or range(1, task.modulus // 2 + 1))
    groups = _Residual(task)
    model = Model(d_model=groups.width, d_head=groups.width, d_mlp=(None, W_in.shape[1]))
    config = dataclasses.replace(config, model=model)
    weights = {name: torch.zeros(1, *shape, dtype=torch.float64) for name, shape in weight_shapes(config).items()}
    weights["embed.W_E"][0, :, groups.token] = torch.eye(len(groups.token)).double()
    weights["pos_embed.W_pos"][0, :, groups.position] = torch.eye(len(groups.position)).double()
    for layer, (QK, OV) in enumerate((_copy_variables(groups), _fetch_values(groups))):
        # W_K = W_O = 1, so that W_Q and W_V are the circuits themselves (QK after the division by sqrt(d_head)).
        attention = f"blocks.{layer}.attn"
        weights[f"{attention}.W_Q"][0, 0] = QK * math.sqrt(groups.width)
        weights[f"{attention}.W_K"][0, 0] = torch.eye(groups.width)
        weights[f"{attention}.W_V"][0, 0] = OV
        weights[f"{attention}.W_O"][0, 0] = torch.eye(groups.width)
    weights["blocks.1.mlp.W_in"][0, groups.value] = W_in * 2 / VALUE  # the attention brings A/2 (a_n + a_m)
    weights["blocks.1.mlp.W_out"][0, :, groups.answer] = W_out * SHARPNESS
    weights["unembed.W_U"][0, groups.answer] = torch.eye(len(groups.answer)).double()
    return Stack(config, flatten(config, weights).to(getattr(torch, config.numerics.dtype)))


class _Residual:
    """Which coordinates of the residual stream hold what: index tensors, one group of coordinates after another."""

    def __init__(self, task: Task):
        """Numbers the coordinates, group by group."""
        vocabulary = Vocabulary(task)
        # Tokens e_x, positions p_t, copied variables c_v, fetched values a_n, answers.
        sizes = [vocabulary.size, task.length, task.n_vars, task.modulus, task.modulus]
        self.width = sum(sizes)
        self.token, self.position, self.copied, self.value, self.answer = torch.arange(self.width).split(sizes)
        # Parts of `token`.
        self.number = self.token[list(vocabulary.numbers)]
        self.variable = self.token[list(vocabulary.variables)]
        self.equals = self.token[vocabulary.equals]
        # Where in a sequence `+` and the two operands stand, and the coordinates of the operands' positions.
        self.plus, self.first, self.second, _ = fixed_positions(task).values()
        self.operands = self.position[[self.first, self.second]]

    def zeros(self) -> Tensor:
        """A matrix from the residual stream to itself, (width, width)."""
        return torch.zeros(self.width, self.width, dtype=torch.float64)


def _check_task(task: Task) -> None:
    """Raises a ConfigError for a task for which no model is written down here."""
    for name, accepted in ACCEPTED.items():
        value = getattr(task, name)
        if value != accepted:
            raise ConfigError(f"task.{name}", value, f"{accepted} for the hand-made model")
    if task.modulus % 2 == 0:
        raise ConfigError("task.modulus", task.modulus, "an odd number for the hand-made model")


def _copy_variables(groups: _Residual) -> tuple[Tensor, Tensor]:
    """QK1, by which numbers attend to the token before them and `=` to the operands; OV1, which copies variables."""
    QK, OV = groups.zeros(), groups.zeros()
    # Two index tensors are paired entry by entry: position t attends to t - 1.
    QK[groups.position[1 : groups.second], groups.position[: groups.first]] = SCORE
    QK[groups.position[groups.second], groups.position[groups.plus]] = SCORE
    QK[groups.equals, groups.operands] = SCORE
    OV[groups.variable, groups.copied] = 1
    return QK, OV


def _fetch_values(groups: _Residual) -> tuple[Tensor, Tensor]:
    """QK2, which matches variables and finds literals; OV2, which fetches values."""
    QK, OV = groups.zeros(), groups.zeros()
    QK[groups.copied, groups.copied] = 2 * SCORE  # each variable with itself, as index tensors are paired
    QK[groups.equals, torch.cat([groups.number, groups.operands])] = SCORE
    OV[groups.number, groups.value] = VALUE
    return QK, OV


def fourier_mlp(N: int, frequencies: Sequence[int]) -> tuple[Float[Tensor, "N h"], Float[Tensor, "h N"]]:
    """A ReLU layer that adds mod N: W_in, W_out with relu(x @ W_in) @ W_out largest at n + m for x = a_n + a_m.

    Neuron (k, j) has the preactivation of the paper (section 5.1, figure preacts) with alpha = beta = phi_j = 2 pi j /
    P, where P = `PHASES`. With w = 2 pi k / N,

        cos(w n + phi) + cos(w m + phi) = D cos(w (n + m) / 2 + phi),    D = 2 cos(w (n - m) / 2).

    ReLU(cos x) = 1/pi + cos(x) / 2 + 2/(3 pi) cos(2x) - 2/(15 pi) cos(4x) + ...: its second harmonic has the frequency
    of n + m itself, and an even harmonic does not see the sign of D. The read-out cos(w s + 2 phi_j), summed over the P
    phases, keeps that harmonic and gives  P |D| / (3 pi) cos(w (n + m - s)),  largest at s = n + m for each k at once.
    The sum over P phases also lets harmonics h = 2 mod P through. P = 3 would let the first through (h = -1), P = 4 the
    conjugate of the second (h = -2); with P = 5 the first of them is the eighth (h = -8), 1/21 as strong as the second.

    For even N two sums have the same logit when m = n + N/2: D vanishes for odd k, and even k cannot tell s from
    s + N/2.
    """
    k = torch.tensor(list(frequencies)).double()[:, None, None]  # (frequencies, 1, 1)
    phase = 2 * math.pi * torch.arange(PHASES).double()[:, None] / PHASES  # (P, 1)
    angle = 2 * math.pi * k * torch.arange(N).double() / N  # w n: (frequencies, 1, N)
    preactivations = torch.cos(angle + phase).flatten(0, 1)  # (h, N) with h = frequencies * P
    read_out = torch.cos(angle + 2 * phase).flatten(0, 1)  # (h, N)
    # The logits become the mean over frequencies of |D| / 2 cos(w (n + m - s)).
    scale = 3 * math.pi / (2 * PHASES * len(k))
    return preactivations.T, scale * read_out
