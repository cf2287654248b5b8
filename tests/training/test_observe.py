"""An observer looks at the models on its own schedule, and what it finds is stored in the metrics."""

from dataclasses import replace

import pytest
import torch

from assignadd.config import PRESETS, Member, Optim, Recording
from assignadd.runs.folder import Run
from assignadd.task.splits import pair_split
from assignadd.training.loop import is_evaluation, is_measurement, saves_state, train_run
from tests.runs.small import contents

torch.set_num_threads(1)
CONFIG = replace(PRESETS["smoke"], optim=Optim(batch=8, steps=24), record=Recording(10, 16, 12, 1000, measure_every=7))
MEMBERS = [Member(0), Member(1, seen_fraction=0.5)]
SEEN = torch.stack([pair_split(m.config(CONFIG).task, m.seed) for m in MEMBERS])


def observer(configs, seen):
    """What only the right model, configuration and split give."""

    def look(stack, step):
        first = stack.flat[:, 0].tolist()
        return [
            {"w": w, "seed": c.seed.init, "seen": int(s.sum()), "step": step}
            for w, c, s in zip(first, configs, seen, strict=True)
        ]

    return look


def test_the_schedule():
    steps = range(25)
    assert [s for s in steps if is_measurement(CONFIG, s)] == [0, 7, 14, 21, 24]
    assert [s for s in steps if is_evaluation(CONFIG, s)] == [0, 7, 10, 14, 20, 21, 24]
    assert [s for s in steps if saves_state(CONFIG, s)] == [0, 12, 24]
    never = replace(CONFIG, record=replace(CONFIG.record, measure_every=0))
    assert not any(is_measurement(never, s) for s in steps)


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_found_is_stored_with_the_model_it_was_found_in(tmp_path, threads):
    run = train_run(tmp_path / "run", CONFIG, MEMBERS, SEEN, threads=threads, observe=observer)
    rows = run.metrics()
    assert [r["step"] for r in rows[::2]] == [0, 7, 10, 14, 20, 21, 24]
    for row in rows:
        if row["step"] in (10, 20):
            assert "measures" not in row
        else:
            n_seen = run.configs[row["model"]].task.n_seen
            assert row["measures"].items() >= {"seed": row["seed"], "seen": n_seen, "step": row["step"]}.items()
    last = [r["measures"]["w"] for r in rows[-2:]]
    assert last == run.checkpoint(24).flat[:, 0].tolist()


def test_an_observer_does_not_change_the_training_and_an_interrupted_run_measures_the_same(tmp_path):
    whole = train_run(tmp_path / "whole", CONFIG, MEMBERS, SEEN, observe=observer)
    plain = train_run(tmp_path / "plain", CONFIG, MEMBERS, SEEN)
    assert torch.equal(whole.checkpoint(24).flat, plain.checkpoint(24).flat)

    class Stop(Exception):
        pass

    def stop(progress) -> None:
        if progress.step == 21:
            raise Stop

    with pytest.raises(Stop):
        train_run(tmp_path / "run", CONFIG, MEMBERS, SEEN, listener=stop, observe=observer)
    assert Run.open(tmp_path / "run").step == 21
    train_run(tmp_path / "run", CONFIG, MEMBERS, SEEN, observe=observer)  # from step 12 on
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")
