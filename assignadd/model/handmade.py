"""A model written down, not trained: it solves the task by the paper's mechanism, and every measure is 1.0 on it.

The residual stream is a row of one-hot groups, orthogonal as in the paper's appendix C, so each matrix is a short sum
of outer products and nothing interferes. e_x is a token, p_t a position, c_v "variable v was copied here" (Phi_1 e_v),
a_n "the value n was fetched" (Phi_2 e_n); the last group holds the answer.

    W_E = e, W_pos = p
    QK1 = G [ p_t -> p_{t-1} (t up to T-3),  p_{T-2} -> p_{T-4},  e_= -> p_{T-3} + p_{T-2} ]
    OV1 = e_v -> c_v
    QK2 = 2G [ c_v -> c_v ] + G [ e_= -> all e_n + p_{T-3} + p_{T-2} ]
    OV2 = A [ e_n -> a_n ]
    MLP2 adds the two values; W_U reads the answer.

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

Other operations need to know which value is the first operand's. There `=` attends to it N times as much as to the
second: the matches and slots of the first operand score log(N)/2 more, those of the second log(N)/2 lower. The output
is A (N a_n + a_m) / (N + 1), and the sum of its entries, each times its number, is the code N n + m of the pair, which
MLP2 looks up (`code_mlp`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from assignadd.config import Config, ConfigError, Model, Task
from assignadd.model.stack import Stack, flatten, weight_shapes
from assignadd.task.arithmetic import answer_of, tuple_values
from assignadd.task.positions import fixed_positions
from assignadd.task.vocabulary import Vocabulary

# G: what is not attended to leaks less than T e^-32 < 4e-12 of the attention even at the longest T = 256.
SCORE = 32.0
# A: the values outweigh what else `=` holds (e_=, p_{T-1}, the c_v / 2: squared norm at most 2.5 against A^2 / 2 =
# 128), so its residual before the MLP has cosine .99 with OV2(n) + OV2(m), as in a trained network (figure
# cosine_sim_combined).
VALUE = 16.0
# Both MLPs below are scaled to lead by .3 or more for every N (`fourier` with all its frequencies); times this, the
# cross entropy is below 1e-5.
SHARPNESS = 50.0
# The largest N of an operation whose MLP has N^2 neurons: single precision is exact enough, and 40 MB hold the model.
MOST_CODES = 127
# Phases per frequency (see `fourier_mlp`).
PHASES = 5


def handmade(
    config: Config | None = None,
    kind: Literal["fourier", "table"] | None = None,
    frequencies: Sequence[int] | None = None,
) -> Stack:
    """A stack of one model that solves `config.task` exactly, in the dtype of `config.numerics`.

    `config.model` is replaced: two layers, one head, an MLP in the second layer alone, and widths as the construction
    needs them. `kind` chooses that MLP: `fourier`, as trained networks have it (with `frequencies`, from these alone),
    or `table`, as exact but without Fourier structure: a negative control for measures of it. Addition has
    both, by default `fourier`; every other operation of two operands has `table` alone, up to N = 127.
    """
    config = config or Config()
    task = config.task
    _check(task, kind)
    added = task.operation == "add"
    W_in, W_out = _adder(task.modulus, kind or "fourier", frequencies) if added else code_mlp(task)
    at, bias = _Residual(task), 0.0 if added else math.log(task.modulus) / 2
    config = dataclasses.replace(config, model=Model(d_model=at.width, d_head=at.width, d_mlp=(None, W_in.shape[1])))
    weights = {name: torch.zeros(1, *shape, dtype=torch.float64) for name, shape in weight_shapes(config).items()}
    weights["embed.W_E"][0, :, at.token] = torch.eye(len(at.token)).double()
    weights["pos_embed.W_pos"][0, :, at.position] = torch.eye(len(at.position)).double()
    for layer, (QK, OV) in enumerate((_copy_variables(at, bias), _fetch_values(at, bias))):
        # W_K = W_O = 1, so that W_Q and W_V are the circuits themselves (QK after the division by sqrt(d_head)).
        circuits = {"W_Q": QK * math.sqrt(at.width), "W_K": torch.eye(at.width), "W_V": OV, "W_O": torch.eye(at.width)}
        for name, matrix in circuits.items():
            weights[f"blocks.{layer}.attn.{name}"][0, 0] = matrix
    # The attention brings A/2 (a_n + a_m), or A (N a_n + a_m) / (N + 1).
    weights["blocks.1.mlp.W_in"][0, at.value] = W_in * (2 if added else 1) / VALUE
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
        return torch.zeros(self.width, self.width, dtype=torch.float64)


def _check(task: Task, kind: str | None) -> None:
    """Refuses a task for which no model is written down here."""
    if task.operands != 2:
        raise ConfigError("task.operands", task.operands, "2 for the hand-made model")
    for name in ("hops", "rebinding"):
        if getattr(task, name):
            raise ConfigError(f"task.{name}", getattr(task, name), "0 for the hand-made model")
    if task.operation != "add" and kind == "fourier":
        raise ValueError(f"kind = 'fourier': expected table for the hand-made model of operation {task.operation}")
    if task.operation != "add" and task.modulus > MOST_CODES:
        accepted = f"at most {MOST_CODES} for the hand-made model of task.operation = {task.operation!r}"
        raise ConfigError("task.modulus", task.modulus, accepted)


def _copy_variables(at: _Residual, bias: float) -> tuple[Tensor, Tensor]:
    """Layer 1: QK1, the previous-token head and the view of `=` on its operands; OV1, which copies variables.

    `=` copies (1 + bias / G) / 2 of the first operand and (1 - bias / G) / 2 of the second: their matches in layer 2
    score G + bias and G - bias.
    """
    QK, OV = at.zeros(), at.zeros()
    QK[at.position[1 : at.second], at.position[: at.first]] = SCORE
    QK[at.position[at.second], at.position[at.plus]] = SCORE
    QK[at.equals, at.operands] = SCORE
    QK[at.equals, at.operands[0]] += math.log((SCORE + bias) / (SCORE - bias))
    OV[at.variable, at.copied] = 1
    return QK, OV


def _fetch_values(at: _Residual, bias: float) -> tuple[Tensor, Tensor]:
    """Layer 2: QK2, which matches variables and finds literals; OV2, which fetches values."""
    QK, OV = at.zeros(), at.zeros()
    QK[at.copied, at.copied] = 2 * SCORE
    QK[at.equals, torch.cat([at.number, at.operands])] = SCORE
    QK[at.equals, at.operands] += torch.tensor([bias, -bias], dtype=torch.float64)
    OV[at.number, at.value] = VALUE
    return QK, OV


def _adder(N: int, kind: str, frequencies: Sequence[int] | None) -> tuple[Tensor, Tensor]:
    if kind not in ("fourier", "table"):
        raise ValueError(f"kind = {kind!r}: expected fourier or table")
    if frequencies is None:
        # Frequency 0, a constant, is wanted for N = 2 alone: there the neurons of frequency 1 are all silent at 0 + 1.
        return table_mlp(N) if kind == "table" else fourier_mlp(N, range(0 if N == 2 else 1, N // 2 + 1))
    if kind == "table" or not frequencies or not set(frequencies) <= set(range(N // 2 + 1)):
        raise ValueError(
            f"frequencies = {tuple(frequencies)}: expected numbers from 0 to N // 2 = {N // 2}, for kind fourier alone"
        )
    W_in, W_out = fourier_mlp(N, sorted(set(frequencies)))
    logits = torch.relu(W_in[:, None] + W_in) @ W_out  # (N, N, N)
    if not (logits.argmax(-1) == answer_of(Task(modulus=N), (torch.arange(N)[:, None], torch.arange(N)))).all():
        raise ValueError(
            f"frequencies = {tuple(frequencies)} do not tell all sums mod {N} apart: "
            "add some, or leave them out to use all"
        )
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

    For even N this ties when m = n + N/2: D vanishes for odd k, and even k cannot tell s from s + N/2. The first
    harmonic of the even frequencies, which is linear in x, breaks the tie. Read out at even s with
    -4/(3 pi) cos(w s / 2 + phi_j), it weighs down the doubles s = 2n and 2m (lesser peaks of the logits, as in the
    paper's appendix C), and frequency q of the logits has weight |u| - (2 u^2 - 1) / 2 >= 1/2 instead of |u|,
    u = cos(pi q (n - m) / N). (k = N/2 is its own mirror image N - k and counts half.)
    """
    k = torch.tensor(list(frequencies)).double()[:, None, None]
    phase = 2 * math.pi * torch.arange(PHASES).double()[:, None] / PHASES
    n = torch.arange(N).double()
    turn = 2 * math.pi * k * n / N  # (K, 1, N)
    read_out = torch.cos(turn + 2 * phase)  # (K, P, N)
    if N % 2 == 0:
        doubles = (k % 2 == 0) * (n % 2 == 0) * torch.where(2 * k == N, 0.5, 1.0).double()
        read_out = read_out - 4 / (3 * math.pi) * doubles * torch.cos(turn / 2 + phase)
    scale = 3 * math.pi / (2 * PHASES * len(k))  # a mean over frequencies of |u| cos(w (n + m - s))
    return torch.cos(turn + phase).flatten(0, 1).T, scale * read_out.flatten(0, 1)


def table_mlp(N: int) -> tuple[Float[Tensor, "N h"], Float[Tensor, "h N"]]:
    """A ReLU layer that adds mod N by counting: logit 1 at n + m mod N and 0 elsewhere for x = a_n + a_m.

    Neuron i computes ReLU(n + m - (i - 1)), i = 0..2N-2 (the -(i - 1) comes from both values, half each: there are no
    biases). The second difference of neurons s, s+1, s+2 is the hat that is 1 at n + m = s and 0 at every other whole
    number; the sums s = 0..2N-2 are then folded mod N.
    """
    size = 2 * N - 1
    W_in = torch.arange(N).double()[:, None] - (torch.arange(size).double() - 1) / 2
    return W_in, _second_differences(torch.eye(N).double()[torch.arange(size) % N])


def code_mlp(task: Task) -> tuple[Float[Tensor, "N h"], Float[Tensor, "h N"]]:
    """A ReLU layer for any operation: logit 1 at its answer and 0 elsewhere for x = (N a_n + a_m) / (N + 1).

    As `table_mlp`, with the code s = N n + m instead of the sum: neuron i computes ReLU(s - (i - 1)), i = 0..N^2-1.
    """
    N = task.modulus
    codes = torch.arange(N**2)
    W_in = (N + 1) * torch.arange(N).double()[:, None] - (codes.double() - 1)
    return W_in, _second_differences(torch.eye(N).double()[answer_of(task, tuple_values(codes, N))])


def _second_differences(rows: Float[Tensor, "h N"]) -> Float[Tensor, "h N"]:
    """W_out that gives row s where the neurons are ReLU(s - (i - 1)): the hat 1, -2, 1 of neurons s, s+1, s+2."""
    out = rows.clone()
    out[1:] -= 2 * rows[:-1]
    out[2:] += rows[:-2]
    return out
