"""Onsets, spikes and phases on curves drawn by hand, where the answer is known."""

import numpy as np
import pytest

from assignadd.dynamics.curves import (
    Delay,
    Onset,
    Spike,
    bursts,
    change_points,
    fast_rises,
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
    find_phases,
    late_variable,
    skill_onset,
)
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


def test_steps_between_onsets_with_what_is_open_about_both():
    first, second = Onset(1000, 800, 1300), Onset(3000, 2900, 3500)
    assert steps_between(first, second, 10_000) == Delay(2000, 1600, 2700)
    assert steps_between(second, first, 10_000) == Delay(-2000, -2700, -1600)
    there = Onset(0, 0, 0)  # at the first evaluation: its latest step is 0, not missing
    assert steps_between(there, second, 10_000) == Delay(3000, 2900, 3500)
    assert steps_between(first, Onset(3000, 2900, None), 10_000) == Delay(2000, 1600, 9200)
    assert steps_between(first, None, 10_000) is None
    assert steps_between(None, second, 10_000) == Delay(
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
    assert rise_time(STEPS, sudden, Spike(2900, 3000, 0.5, 0.9)) == Delay(100, 0, 100)
    slow = np.interp(STEPS, [2050, 4050], [0.5, 0.9])  # 10 % at 2,250 and 90 % at 3,850: 1,600 steps
    assert rise_time(STEPS, slow, Spike(2900, 3000, 0.5, 0.9)) == Delay(1700, 1500, 1700)
    far = np.array([0, 3000, 8000])
    assert rise_time(far, np.array([0.5, 0.6, 0.9]), Spike(0, 3000, 0.5, 0.9)) == Delay(8000, 0, 8000)


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
    assert [s.after for s in spikes(STEPS, curve)] == [1000, 4000, 8000]
    assert largest_spike(STEPS, curve, since=5000).after == 8000
    assert largest_spike(STEPS, curve, since=20_000) is None


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
    found = find_phases(curves(3000, 7000))
    assert (found.addition.step, found.binding.step, found.refinement.step) == (500, 3000, 7000)
    assert (found.first_spike.before, found.first_spike.after) == (2900, 3000)
    assert (found.second_spike.before, found.second_spike.after) == (6900, 7000)
    assert found.boundaries == [("addition", 2900), ("binding", 3000), ("refinement", 7000)]


def test_a_run_that_never_binds_says_so():
    found = find_phases(curves(None, None))
    assert found.addition.step == 500 and found.binding is None and found.first_spike is None and found.boundaries == []
    assert "no second phase" in found.summary
    assert "no third phase" in find_phases(curves(3000, None)).summary


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


def test_fast_rises_and_bursts_are_those_that_were_planted():
    steps = np.arange(0, 10_000, 25)
    noise = np.random.default_rng(0).normal(0, 0.01, len(steps))
    accuracy = 0.3 + 0.2 * steps / 10_000 + 0.25 * (steps >= 4000) + 0.2 * np.clip((steps - 7000) / 60, 0, 1) + noise
    assert fast_rises(steps, accuracy) == [3900, 6950]
    assert fast_rises(steps, accuracy, since=5000) == [6950] and fast_rises(steps, accuracy, least=0.3) == []
    loss = 0.1 + 0.4 * np.exp(-steps / 2000) + noise / 10
    loss[steps == 5000] *= 3
    loss[(steps >= 8000) & (steps < 8300)] += 1  # one burst, however long it lasts
    assert bursts(steps, loss) == [5000, 8000] and bursts(steps, loss, since=6000) == [8000]
    assert bursts(steps, loss / 60) == []  # less than .02 above the usual loss
