"""Causes along training, on curves and runs whose onsets are known."""

import numpy as np

from assignadd.interventions.interchange import ALIGNMENTS, Interchange
from assignadd.interventions.timeline import causes_over_time, onset_steps, spread_steps


def test_onsets_last():
    steps = np.arange(0, 5000, 500)
    early, dip = (steps >= 1000) * 0.9, np.where(steps == 2000, 0.2, 0.8) * (steps > 500)
    found = onset_steps({"step": steps, "early": early, "dip": dip, "never": early * 0.5})
    assert found == {"early": 1000, "dip": 2500, "never": None}


def test_steps_are_spread():
    assert spread_steps([0, 1, 2, 5, 10, 20], 3) == [0, 2, 20] and spread_steps([0, 7], 60) == [0, 7]
    assert len(spread_steps(range(300), 60)) == 60


def test_a_row_is_the_interchange_of_that_checkpoint(paper_run):
    heard = []
    found = causes_over_time(paper_run, 0, [1001, 20_001], n=270, listener=lambda done, total: heard.append((done, total)))
    assert list(found) == ["step", *ALIGNMENTS] and heard == [(0, 2), (1, 2), (2, 2)]
    alone = Interchange(paper_run.configs[0], paper_run.seen[0], 270)(paper_run.checkpoint(20_001))[0]
    assert [found[name][1] for name in ALIGNMENTS] == [alone[name].accuracy() for name in ALIGNMENTS]
    assert found["binding tag"][0] < 0.5 < found["binding tag"][1]
