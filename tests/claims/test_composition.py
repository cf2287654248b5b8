"""Composition as a product, on curves that are one by construction."""

import numpy as np
import pytest

from assignadd.claims.nameless import NEEDED, composition
from assignadd.dynamics.phases import Curves

LITERALS, ADDING, ONE, HELD_OUT, TWO = NEEDED
GUESS, GUESS_HELD_OUT = 0.6, 0.3
BOUND, FALLS = np.array([0.0, 0.0, 0.5, 0.95, 1.0]), np.array([0.0, 1.0, 0.5, 1.0, 1.0])


def curves(bound: np.ndarray) -> Curves:
    """A network that looks a variable up in a share of the sums, guesses in the others, and adds as well as it can."""
    adding = np.array([0.2, *[0.98] * (len(bound) - 1)])
    one = bound + (1 - bound) * GUESS
    held_out = adding * bound + (1 - bound) * GUESS_HELD_OUT
    accuracy = {LITERALS: np.ones(len(bound)), ADDING: adding, ONE: one, HELD_OUT: held_out, TWO: one**2}
    return Curves(np.arange(len(bound)), accuracy, 512)


def test_guessing_explains_a_mixture_that_the_product_does_not():
    found = composition(curves(BOUND), BOUND, GUESS, GUESS_HELD_OUT)
    assert found.one_variable == pytest.approx([0.6, 0.8, 0.98, 1.0])  # before it adds, nothing is asked
    assert found.held_out_guessing == pytest.approx([0, 0, 0, 0]) and found.two_variables == pytest.approx([0, 0, 0, 0])
    assert found.attending == pytest.approx([0.6, 0.3, 0.03, 0])  # what guessing adds to the looked-up share
    assert found.held_out == pytest.approx([0.3 - 0.98 * 0.6, 0.64 - 0.98 * 0.8, 0.946 - 0.98 * 0.98, 0])


def test_bound_is_from_where_it_stays():
    found = composition(curves(FALLS), FALLS, GUESS, GUESS_HELD_OUT)
    assert found.bound.tolist() == [False, False, True, True]
