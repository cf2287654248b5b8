"""Onsets, spikes and phases on curves drawn by hand, where the answer is known."""

import numpy as np
import pytest

from assignadd.dynamics.curves import (
    PENALTY_OF_64,
    Onset,
    Spike,
    change_points,
    first_lasting,
    largest_spike,
    onset,
    rise_time,
    spikes,
    steps_between,
)
from assignadd.dynamics.phases import (
    HELD_OUT_SETS,
    LITERAL_SETS,
    TRAINED_SETS,
    Curves,
    late_variable,
    skill_onset,
)
from assignadd.stats import Measured
from assignadd.task.evalsets import EVAL_SETS

STEPS = np.arange(0, 10_001, 100)


def step_curve(*jumps: tuple[int, float], start: float = 0.0) -> np.ndarray:
    """Flat but for jumps to a level at a step."""
    curve = np.full(len(STEPS), start)
    for at, level in jumps:
        curve[at <= STEPS] = level
    return curve


def noise(n: int = 512, seed: int = 0):
    """Counts on n sequences instead of the true shares."""
    generator = np.random.default_rng(seed)
    return lambda curve: generator.binomial(n, curve) / n


def test_a_crossing_that_does_not_last_is_passed_over():
    above = np.zeros(len(STEPS), bool)
    above[10:15], above[40:] = True, True
    assert first_lasting(STEPS, above, 1000) == 40
    assert first_lasting(STEPS, above, 300) == 10
    assert first_lasting(STEPS, ~above & False) is None
    above[:] = False
    above[-3:] = True
    assert first_lasting(STEPS, above, 1000) == len(STEPS) - 3  # to the end counts


def test_a_single_evaluation_does_not_last_where_evaluations_are_far_apart():
    steps, above = np.array([1, 1001, 3001, 5301, 5401, 10_001]), np.array([False, True, False, False, True, True])
    assert first_lasting(steps, above, 1000) == 4
    above[3] = True
    assert first_lasting(steps, above, 1000) == 3


def test_an_onset_and_its_interval_from_noise():
    curve = step_curve((3000, 0.94), (4000, 0.951), (6000, 0.99), start=0.5)
    assert onset(STEPS, curve, 512, 0.95) == Onset(4000, 2900, 6000)  # .94 + noise may be .95; .951 - noise may not
    assert onset(STEPS, curve, 10**6, 0.95) == onset(STEPS, curve, None, 0.95) == Onset(4000, 3900, 4000)
    assert onset(STEPS, step_curve((4000, 0.951), start=0.5), 512, 0.95) == Onset(4000, 3900, None)
    assert onset(STEPS, step_curve((100, 0.9)), 512, 0.95) is None
    assert onset(STEPS, step_curve(start=0.99), 512, 0.95) == Onset(0, 0, 0)


def test_a_model_that_diverges_loses_what_it_had():
    curve = step_curve((2000, 0.99), (8000, np.nan))
    assert onset(STEPS, curve, 512, 0.95).step == 2000 and onset(STEPS, curve, 512, 0.95, lasting=7000) is None
    assert onset(STEPS, step_curve((0, np.nan)), 512, 0.95) is None


# A slow rise, its true crossing of any level, and what Wilson's interval says of it: the level is in the interval just
# where the share lies within z sqrt(level (1 - level) / n) of the level, as the interval is that score test inverted.
MIDDLE, WIDTH, Z = 5000, 600, 1.96


def rise(steps: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp((MIDDLE - steps) / WIDTH))


def crosses(level: float) -> float:
    return MIDDLE + WIDTH * np.log(level / (1 - level))


@pytest.mark.parametrize(("n", "level"), [(64, 0.5), (154, 0.9), (512, 0.9), (512, 0.95), (2000, 0.95)])
def test_the_interval_of_a_known_rise_is_that_of_the_score_test(n, level):
    steps, off = np.arange(0, 20_001, 100), Z * np.sqrt(level * (1 - level) / n)
    found = onset(steps, rise(steps), n, level)
    assert found.step - 100 < crosses(level) <= found.step
    room = WIDTH / (level * (1 - level)) / n  # a share is rounded to the nearest count
    assert crosses(level - off) - 100 - room < found.low < crosses(level - off) + room
    assert (
        found.high is None
        if level + off >= 1
        else crosses(level + off) - room < found.high < crosses(level + off) + 100 + room
    )


@pytest.mark.parametrize("same_sequences", [True, False], ids=["same sequences at every step", "fresh sequences"])
@pytest.mark.parametrize(("n", "level"), [(64, 0.5), (512, 0.9)])
def test_the_crossing_lies_in_its_interval_as_often_as_promised(n, level, same_sequences):
    """A sequence of difficulty u in (0, 1) is answered where the true share is above u; an exam keeps its sequences."""
    generator, repeats, true = np.random.default_rng(0), 400, crosses(level)
    difficulty = generator.random((repeats, 1 if same_sequences else len(STEPS), n))
    shares = (difficulty < rise(STEPS)[:, None]).mean(-1)  # (repeats, steps)
    found = [onset(STEPS, curve, n, level) for curve in shares]
    held = sum(o.low < true and (o.high is None or true <= o.high) for o in found)
    assert held >= 0.95 * repeats - 2 * np.sqrt(0.95 * 0.05 * repeats)
    assert sum(o.step - 100 < true <= o.step for o in found) < 0.6 * repeats  # the step alone would promise too much


def delay(steps: int, low: int, high: int) -> Measured:
    return Measured(steps, low, high, len(STEPS), "evaluations")


def test_steps_between_onsets_with_what_is_open_about_both():
    first, second = Onset(1000, 800, 1300), Onset(3000, 2900, 3500)
    assert steps_between(first, second, STEPS) == delay(2000, 1600, 2700)
    assert steps_between(second, first, STEPS) == delay(-2000, -2700, -1600)
    there = Onset(0, 0, 0)  # at the first evaluation: its latest step is 0, not missing
    assert steps_between(there, second, STEPS) == delay(3000, 2900, 3500)
    assert steps_between(first, Onset(3000, 2900, None), STEPS) == delay(2000, 1600, 9200)
    assert steps_between(first, None, STEPS) is None
    assert steps_between(None, second, STEPS) == delay(
        -7000, -7100, -6500
    )  # counts as the last step: later than the second


def test_the_onset_of_a_skill_is_that_of_its_lowest_set_at_one_level():
    assert LITERAL_SETS == ("0-var train", "0-var add-restricted") and TRAINED_SETS == ("1-var train", "2-var train")
    assert HELD_OUT_SETS == ("1-var add-restricted", "2-var add-restricted")
    accuracy = {"1-var train": step_curve((2000, 0.99)), "2-var train": step_curve((1000, 0.92), (4000, 0.99))}
    made = Curves(STEPS, accuracy, 10**6)
    assert skill_onset(made, TRAINED_SETS).step == 4000
    assert skill_onset(made, TRAINED_SETS, 0.9).step == 2000
    assert (
        skill_onset(made, ["1-var train", "2-var add-restricted"]).step == 2000
    )  # a set that the task lacks is left out
    assert skill_onset(made, HELD_OUT_SETS) is None


def test_how_long_a_rise_takes_is_open_by_the_evaluations_around_it():
    sudden = step_curve((3000, 0.9), start=0.5)
    assert rise_time(STEPS, sudden, 512, Spike(2900, 3000, 0.5, 0.9, 2900, 3000)) == delay(100, 0, 100)
    # 10 % of the way at 2,250 and 90 % at 3,850: 1,600 steps, and longer than the 1,500 between 2,300 and 3,800.
    slow, spike = np.interp(STEPS, [2050, 4050], [0.5, 0.9]), Spike(2900, 3000, 0.5, 0.9, 2200, 3900)
    assert rise_time(STEPS, slow, 10**9, spike) == delay(1700, 1501, 1700)
    # Of 512 sequences, a share is certain to be inside if it is 1.96 standard errors from .54 and from .86: from .583
    # at step 2,466 to .830 at 3,699.
    assert rise_time(STEPS, slow, 512, spike) == delay(1700, 1101, 1700)
    assert rise_time(STEPS, slow, 4, spike).low == 0  # nothing is certain
    far, values = np.array([0, 3000, 8000]), np.array([0.5, 0.6, 0.9])
    assert rise_time(far, values, 10**6, Spike(0, 3000, 0.5, 0.9, 0, 8000)) == Measured(8000, 1, 8000, 3, "evaluations")


@pytest.mark.parametrize("seed", range(8))
def test_change_points_are_those_of_the_cheapest_of_all_fits(seed):
    """By trying all 512 ways to cut ten values, each cut at the price of the penalty."""
    values = np.random.default_rng(seed).random(10) * 0.4

    def cost(cuts: list[int]) -> float:
        parts = np.split(values, cuts)
        return sum(((part - part.mean()) ** 2).sum() for part in parts) + 0.02 * len(cuts)

    tried = [[i for i in range(1, 10) if bits >> i & 1] for bits in range(0, 1024, 2)]
    assert change_points(values) == min(tried, key=cost)
    assert change_points(values[:1]) == [] and change_points(np.array([0.0, 0.3])) == [1]


def test_change_points_are_where_the_levels_change():
    curve = step_curve((2000, 0.4), (7000, 0.9), start=0.1)
    assert [int(STEPS[i]) for i in change_points(noise()(curve))] == [2000, 7000]
    assert change_points(noise()(np.full(300, 0.5))) == []


def test_the_largest_rise_is_the_spike_and_falls_do_not_count():
    curve = noise(seed=1)(step_curve((1000, 0.3), (4000, 0.8), (6000, 0.2), (8000, 0.5), start=0.05))
    found = largest_spike(STEPS, curve)
    assert (found.before, found.after) == (3900, 4000) and found.rise == pytest.approx(0.5, abs=0.03)
    assert (found.begin, found.end) == (3900, 4000)  # at once
    assert [s.after for s in spikes(STEPS, curve)] == [1000, 4000]
    assert largest_spike(STEPS, curve, since=5000) is None  # .2 to .5 is half of what was lost
    assert largest_spike(STEPS, curve, since=6000).after == 8000  # by itself it is a rise
    assert largest_spike(STEPS, curve, since=20_000) is None


@pytest.mark.parametrize(("apart", "found"), [(1000, [3000]), (1500, [3500]), (1600, [2000, 3600])])
def test_a_rise_in_stairs_is_one_spike_at_its_steepest_step(apart, found):
    curve = step_curve((2000, 0.5), (2000 + apart, 0.9), start=0.3)
    rises = spikes(STEPS, curve)
    assert [s.after for s in rises] == found
    if len(rises) == 1:
        (one,) = rises
        assert (one.low, one.high, one.begin, one.end) == (0.3, 0.9, 1900, 2000 + apart)  # from the first stair on
    else:
        assert [(s.low, s.high) for s in rises] == [(0.3, 0.5), (0.5, 0.9)]


def test_a_spike_lasts_from_a_tenth_to_nine_tenths_of_its_rise():
    """Twelve stairs of .05 from step 3,000 on, .2 to .8: .25 at 3,000 is under a tenth, .75 at 4,000 over nine."""
    curve = np.clip(0.2 + 0.05 * (1 + (STEPS - 3000) // 100), 0.2, 0.8)
    (found,) = spikes(STEPS, curve)
    assert (found.begin, found.end) == (3000, 4000) and found.begin <= found.before < found.after <= found.end
    assert (found.low, found.high) == pytest.approx((0.2, 0.8), abs=0.02)


def test_a_recovery_is_no_spike_but_a_rise_above_all_before_is():
    def after_a_fall(level: float) -> list[int]:
        return [s.after for s in spikes(STEPS, step_curve((2000, 0.9), (4000, 0.4), (6000, level), start=0.3))]

    assert after_a_fall(0.9) == after_a_fall(0.85) == [2000] and after_a_fall(0.95) == [2000, 6000]


@pytest.mark.parametrize("seed", range(5))
def test_a_change_of_level_that_is_lost_in_the_scatter_is_no_spike(seed):
    """Normal noise of .03: a rise of .05 can be computed, one of .2 can be seen."""
    scatter = np.random.default_rng(seed).normal(0, 0.03, len(STEPS))
    small, large = (step_curve((5000, 0.6 + rise), start=0.6) + scatter for rise in (0.05, 0.2))
    assert change_points(small) and spikes(STEPS, small) == []
    assert [s.after for s in spikes(STEPS, large)] == [5000]


def test_few_sequences_need_a_larger_penalty():
    flat = [noise(64, seed)(np.full(300, 0.5)) for seed in range(20)]
    assert any(change_points(curve) for curve in flat)
    assert not any(change_points(curve, PENALTY_OF_64) for curve in flat)
    risen = [noise(64, seed)(step_curve((5000, 0.8), start=0.3)) for seed in range(20)]
    assert {largest_spike(STEPS, curve, penalty=PENALTY_OF_64).after for curve in risen} == {5000}


def curves(binding: int | None, refinement: int | None) -> Curves:
    made, draw = {}, noise(seed=2)
    for s in EVAL_SETS:
        jumps = [(500, 0.99)] if s.n_vars == 0 else [(500, 0.35)]
        if s.n_vars and not s.n_banned and binding:
            jumps.append((binding, 0.99))
        if s.n_banned and refinement:
            jumps.append((refinement, 0.99))
        made[s.name] = draw(step_curve(*jumps, start=0.02))
    return Curves(STEPS, made, 512)


def test_three_phases():
    found = curves(3000, 7000).phases
    assert (found.addition.step, found.binding.step, found.refinement.step) == (500, 3000, 7000)
    assert (found.first_spike.before, found.first_spike.after) == (2900, 3000)
    assert (found.second_spike.before, found.second_spike.after) == (6900, 7000)
    assert found.boundaries == [("addition", 2900), ("binding", 3000), ("refinement", 7000)]
    assert found.binds and found.summary == "addition at step 500, binding at 3,000, refinement at 7,000"


def test_the_second_phase_ends_when_sums_with_two_variables_are_learned_too():
    made = curves(3000, 8000)
    made.accuracy["2-var train"][(STEPS >= 3000) & (STEPS < 5000)] = 0.9
    found = made.phases
    assert (found.binding.step, found.trained.step) == (3000, 5000)  # binding is about one variable
    assert found.boundaries == [("addition", 2900), ("binding", 5000), ("refinement", 8000)]


def binding_curve(*jumps: tuple[int, float]) -> Curves:
    return Curves(STEPS, {"0-var add-restricted": step_curve((500, 0.99)), "1-var train": step_curve(*jumps)}, 10**6)


@pytest.mark.parametrize(
    ("jumps", "step", "binds"),
    [
        (((3000, 0.96),), 3000, True),
        (((3000, 0.94),), None, False),
        (((3000, 0.96), (3500, 0.9)), None, False),  # 500 steps are too few
        (((3000, 0.96), (9100, 0.9)), 3000, False),  # lost by the end: all of the last ten
        (((3000, 0.96), (9700, 0.9)), 3000, True),  # four of the last ten dip
        (((9800, 0.96),), 9800, True),  # came three evaluations before the end, and has it at all of them
        (((1000, 0.96), (4000, 0.9), (7000, 0.97)), 1000, True),  # lost and found: the first time counts
    ],
)
def test_a_network_binds_from_a_step_on_and_in_the_end(jumps, step, binds):
    made = binding_curve(*jumps)
    found = made.phases
    assert (made.binding and made.binding.step) == step and made.binds == binds
    assert found.binding == made.binding and found.binds == binds
    assert ("and lost by the end" in found.summary) == (step is not None and not binds)


def test_curves_of_a_table_and_up_to_a_step():
    columns = {"step": STEPS, "1-var train": step_curve((3000, 0.96), (6000, 0.5)), "loss": np.zeros(len(STEPS))}
    made = Curves.of_columns(columns, 512)
    assert list(made.accuracy) == ["1-var train"] and made.n == 512 and not made.binds
    early = made.until(5000)
    assert early.steps.tolist() == list(range(0, 5001, 100)) and early.n == 512
    assert early.accuracy["1-var train"].tolist() == columns["1-var train"][:51].tolist() and early.binds


def test_a_run_that_never_binds_says_so():
    found = curves(None, None).phases
    assert found.addition.step == 500 and found.binding is None and found.first_spike is None and found.boundaries == []
    assert "no second phase" in found.summary
    assert "no third phase" in curves(3000, None).phases.summary


def test_the_late_variable_is_the_last_to_come():
    columns = {"step": STEPS}
    for v in "abc":
        for slot in ("first", "second"):
            columns[f"accuracy {v} {slot}"] = step_curve((3000, 1.0))
    banned = {"first": "a", "second": "c"}
    assert late_variable(columns, banned, since=3000) is None
    columns["accuracy c second"] = step_curve((1000, 0.7), (2000, 0.1), (6500, 0.95))
    found = late_variable(columns, banned, since=3000)
    assert (found.variable, found.slot, found.banned, found.onset) == ("c", "second", True, 6500)
    assert (found.spike.before, found.spike.after) == (6400, 6500)
    # Another comes at the same evaluation, but was wrong more often before: the alphabet does not decide.
    columns["accuracy a first"] = step_curve((1000, 0.1), (6500, 0.95))
    assert late_variable(columns, banned, since=3000).variable == "a"
    columns["accuracy b first"] = np.zeros(len(STEPS))
    found = late_variable(columns, banned, since=3000)
    assert (found.variable, found.slot, found.banned, found.onset, found.spike) == ("b", "first", False, None, None)


def test_what_is_there_at_the_first_checkpoint_is_not_called_late():
    """A run that keeps its last checkpoint only cannot say when its variables came."""
    columns = {"step": np.array([9000])} | {
        f"accuracy {v} {slot}": np.ones(1) for v in "abc" for slot in ("first", "second")
    }
    banned = {"first": "a", "second": "c"}
    assert late_variable(columns, banned, since=3000) is None
    assert late_variable(columns | {"accuracy c second": np.zeros(1)}, banned, since=3000).variable == "c"
