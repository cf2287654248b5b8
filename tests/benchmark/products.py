"""The floating-point operations of the matrix products that a step of compiled calls is made of."""

from assignadd.benchmark.speed import flops
from assignadd.config import Config
from assignadd.model.kernels.numba_rows import SOME
from assignadd.task.vocabulary import Vocabulary


def flops_of_calls(config: Config) -> int:
    """Those of the table forward, but for the rows of tokens, which are added one by one, and for Q2 K2^T.

    Instead of all rows, two tables are multiplied with those of positions and with a constant one, whose weight has no
    gradient. The rows of scores have spare columns. Rows of layer 2's queries are multiplied by Q2, and then by K2^T.
    """
    B, d, dh, T = config.optim.batch, config.model.d_model, config.model.d_head, config.task.length
    C = Vocabulary(config.task).size + T
    width = -(-2 * C // SOME) * SOME
    without = 3 * B * ((3 * C + 1) * d + (C + 1) * 2 * C) + 3 * (d * dh * d + (C + 1) * d * d)
    instead = B * d * (2 * (3 * T + 1) + 3 * T) + B * width * (2 * (T + 1) + T) + 3 * 2 * (C + 1) * d * dh
    return flops(config) - 2 * without + 2 * instead
