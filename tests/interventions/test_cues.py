"""Sequences with contradictory cues, read again by hand; and a hand-made network that copies the token before."""

import random

import pytest

from assignadd.config import PRESETS, Member
from assignadd.interventions.cues import LAYOUTS, NAMES, PLACES, TWICE, _sequence, cue_answers, exchanged_tags
from assignadd.model.handmade import handmade
from assignadd.runs.folder import Run, shipped
from assignadd.task.splits import pair_split
from assignadd.task.text import render_tokens

CONFIG = Member(0).config(PRESETS["paper"])
SEEN = pair_split(CONFIG.task, 0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_sequence_has_its_layout_once(layout):
    rng, task = random.Random(1), CONFIG.task
    partners = [[row.nonzero()[:, 0].tolist() for row in pairs] for pairs in (SEEN.T, SEEN)]
    for _ in range(40):
        tokens, sums = _sequence(task, partners, layout, rng)
        words = render_tokens(tokens, task).split()
        assert len(words) == task.length and words[12] == "+" and words[15] == "="
        first, second = words[13:15]
        v, literal = (first, second) if first.isalpha() else (second, first)
        assert v not in (task.bans[0] if v == first else task.bans[1])
        numbers = {k: str((total - int(literal)) % 59) for k, total in sums.items()}
        parts = [[{"v": v, **numbers}.get(word, word) for word in part.split()] for part in layout.split("|")]
        at = [_find(words[:12], part) for part in parts]
        assert all(len(places) == 1 for places in at) and at == sorted(at)
        assert words[:12].count(v) == len(parts)


def _find(words, part):
    """Where a part begins, `w` being any letter."""
    return [
        i for i in range(len(words) - len(part) + 1)
        if all(a == b or (b == "w" and a.isalpha()) for a, b in zip(words[i:], part, strict=False))
    ]  # fmt: skip


def test_a_network_that_copies_the_token_before():
    found = cue_answers(handmade(CONFIG), CONFIG, SEEN, 200)
    shares = {layout: {k: float(v.double().mean()) for k, v in own.items()} for layout, own in found.items()}
    assert shares["v x"] == {"x": 1.0} and shares["x v y"] == {"x": 0.0, "y": 1.0}
    assert all(shares[layout]["x"] < 0.3 for layout in ("v . x", "v . . x", "x v", "v w x"))
    assert abs(shares[TWICE]["x"] - shares[TWICE]["y"]) < 0.15


def test_its_tags_are_names():
    found = exchanged_tags(handmade(CONFIG), CONFIG, SEEN, 300)
    own, other = (answers.double().mean() for answers in found[NAMES])
    assert own < 0.02 and other > 0.98
    own, other = (answers.double().mean() for answers in found[PLACES])
    assert own > 0.98 and other < 0.02


def test_positions_are_exchanged_too():
    """A network that does not bind is right in .50 of these sequences, and its attention reads copied positions."""
    run = Run.open(shipped("census-six"))
    index = run.index_of(1)
    own, _ = exchanged_tags(run.at(None)[1].models(index), run.configs[index], run.seen[index], 1000)[PLACES]
    assert own.double().mean() < 0.45
