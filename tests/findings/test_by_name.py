"""Sequences with contradictory cues, read again by hand; and a hand-made network that copies the token before."""

import random
from dataclasses import replace
from pathlib import Path

import polars
import pytest

import assignadd
from assignadd.config import PRESETS, Member
from assignadd.figure import figure
from assignadd.model import handmade
from assignadd.study.files import read_study
from assignadd.task import Vocabulary, pair_split
from assignadd.user_file import user_module

FOLDER = Path(__file__).parents[2] / "findings" / "by_name"
cues, study = user_module(FOLDER / "cues.py"), user_module(FOLDER)
CONFIG = Member(0).config(PRESETS["paper"])
SEEN = pair_split(CONFIG.task, 0)


@pytest.mark.parametrize("layout", cues.LAYOUTS)
def test_a_sequence_has_its_layout_once(layout):
    rng, task = random.Random(1), CONFIG.task
    partners = [[row.nonzero()[:, 0].tolist() for row in pairs] for pairs in (SEEN.T, SEEN)]
    for _ in range(40):
        tokens, sums = cues.sequence(task, partners, layout, rng)
        words = [Vocabulary(task).name(token) for token in tokens]
        assert len(words) == task.length and words[12] == "+" and words[15] == "="
        first, second = words[13:15]
        v, literal = (first, second) if first.isalpha() else (second, first)
        assert v not in (task.bans[0] if v == first else task.bans[1])
        numbers = {k: str((total - int(literal)) % 59) for k, total in sums.items()}
        parts = [[{"v": v, **numbers}.get(word, word) for word in part.split()] for part in layout.split("|")]
        at = [_begins(words[:12], part) for part in parts]
        assert all(len(places) == 1 for places in at) and at == sorted(at)
        assert words[:12].count(v) == len(parts)


def _begins(words, part):
    """Where a part begins, `w` being any letter."""
    return [
        i for i in range(len(words) - len(part) + 1)
        if all(a == b or (b == "w" and a.isalpha()) for a, b in zip(words[i:], part, strict=False))
    ]  # fmt: skip


def test_a_network_that_copies_the_token_before():
    by_layout = cues.cue_answers(handmade(CONFIG), CONFIG, SEEN, 200)
    shares = {layout: {k: float(v.double().mean()) for k, v in own.items()} for layout, own in by_layout.items()}
    assert shares["v x"] == {"x": 1.0} and shares["x v y"] == {"x": 0.0, "y": 1.0}
    assert all(shares[layout]["x"] < 0.3 for layout in ("v . x", "v . . x", "x v", "v w x"))
    assert abs(shares[cues.TWICE]["x"] - shares[cues.TWICE]["y"]) < 0.15


def test_its_tags_are_names():
    after = cues.exchanged_tags(handmade(CONFIG), CONFIG, SEEN, 300)
    names, places = after[cues.NAMES], after[cues.PLACES]
    assert names.unchanged.double().mean() < 0.02 and names.with_other.double().mean() > 0.98
    assert places.unchanged.double().mean() > 0.98 and places.with_other.double().mean() < 0.02


def test_positions_are_exchanged_too():
    """A network that does not bind is right in .50 of these sequences, and its attention reads copied positions."""
    run = assignadd.open_run("census-six")
    index = run.index_of(1)
    after = cues.exchanged_tags(run.at(None)[1].models(index), run.configs[index], run.seen[index], 1000)
    assert after[cues.PLACES].unchanged.double().mean() < 0.45


def test_the_columns_of_a_network_made_by_hand():
    """It tags numbers with names alone, and adds without errors, whatever the number of assignments."""
    config = replace(PRESETS["tiny"], task=replace(PRESETS["tiny"].task, max_assignments=2))
    stack, most = handmade(config), config.task.prefix // 2
    row = study.cue_columns(stack, [stack.config], pair_split(stack.config.task, 0)[None])[0]
    assert row[study.OTHER_NAME] == row[study.OWN_PLACE] == row["v x, x"] == 1
    assert [row[f"{k} assignments"] for k in range(1, most + 1)] == [1] * most
    assert row[study.LATER] == pytest.approx(row["v x | v y, y"] - row["v x | v y, x"])


def test_the_figure_has_a_dot_for_each_network_that_binds():
    table = read_study(study.STUDY, FOLDER)
    binding = table.frame.filter(polars.col("binds"))
    with figure(*study.SIZE) as made:
        study.draw({"cues": table}, made)
        for axes, label in zip(made.axes, (study.PAPER, study.FEW), strict=True):
            dots = [len(line.get_xdata()) for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata())]
            n = binding.filter(polars.col("cell") == label).height
            assert dots == [n] * sum(map(len, study.ROWS.values())) and f": {n} networks" in axes.get_title(loc="left")
