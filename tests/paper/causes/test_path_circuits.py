"""CPR and CMD on curves computed by hand, and the curves of rankings on a random network, recomputed here."""

import numpy as np
import pytest

from assignadd.paper.causes.paths import (
    AT_RANDOM,
    BY_EFFECT,
    BY_SIZE,
    PROPORTIONS,
    RANDOM_ORDERS,
    CircuitCurve,
    PathPatching,
    circuit_curves,
)
from tests.interventions.small import HANDMADE, random_stack, tokens

ONE = tokens(60)[0][60:120]


def curve(*last):
    """A curve with f = 0 up to k = 0.2 and then these two values, for three sequences with m from 2 to 6."""
    f = np.array([0.0] * 8 + list(last))
    empty, whole = np.array([1.0, 2.0, 3.0]), np.array([4.0, 6.0, 8.0])
    return CircuitCurve(empty + f[:, None] * (whole - empty), empty, whole)


def test_areas_by_hand():
    # From k = 0.2 to 0.5 the curve rises from 0 to 1: half of 0.3; from there on it is 1.
    assert curve(1, 1).faithfulness == pytest.approx([0] * 8 + [1, 1])
    assert curve(1, 1).cpr == pytest.approx(0.15 + 0.5)
    # The distance is 1 from k = 0.001 to 0.2, then falls to 0.
    assert curve(1, 1).cmd == pytest.approx(0.199 + 0.15)


def test_more_than_the_network_counts_for_cpr_and_against_cmd():
    assert curve(2, 1).cpr == pytest.approx(0.3 * 1 + 0.5 * 1.5)
    # From 0.2 to 0.5 the trapezoid has the distances 1 and 1, and then 1 and 0.
    assert curve(2, 1).cmd == pytest.approx(0.199 + 0.3 + 0.25)


def test_curves_of_rankings_are_those_recomputed_here():
    patching = PathPatching(random_stack(1), ONE[:20])
    found = circuit_curves(patching, patching.answers())
    paths = patching.paths

    def margins(dropped):
        return patching.margins(patching.logits(set(dropped))).numpy()

    whole, empty = margins([]), margins(paths)
    effect = {path: (whole - margins([path]))[0::2].mean() for path in paths}
    for name, key in ((BY_EFFECT, lambda p: -effect[p]), (BY_SIZE, lambda p: -abs(effect[p]))):
        order = sorted(paths, key=key)
        m = np.array([margins(order[int(k * len(paths)) :])[1::2].mean() for k in PROPORTIONS])
        f = (m - empty[1::2].mean()) / (whole - empty)[1::2].mean()
        assert found[name].faithfulness == pytest.approx(f)
        assert found[name].cpr == pytest.approx(np.trapezoid(f, PROPORTIONS))
        assert found[name].cmd == pytest.approx(np.trapezoid(abs(1 - f), PROPORTIONS))
    assert found[BY_EFFECT].faithfulness != pytest.approx(found[BY_SIZE].faithfulness)


def test_few_paths_of_the_hand_made_model_do_the_work_and_random_ones_do_not():
    patching = PathPatching(HANDMADE, ONE)
    found = circuit_curves(patching, patching.answers())
    assert RANDOM_ORDERS > 1
    assert found[BY_EFFECT].cpr > 0.8 and found[BY_SIZE].cmd < 0.2
    assert found[AT_RANDOM].cpr < 0.4 and found[AT_RANDOM].cmd > 0.6
