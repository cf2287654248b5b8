"""Every measured column has one record, and all labels differ."""

import pytest

from assignadd.config import PRESETS, Member
from assignadd.measures.columns import MEASURES, column_label, measure_of
from assignadd.measures.progress import Progress
from assignadd.model.handmade import handmade
from assignadd.task.splits import pair_split


@pytest.fixture(scope="module")
def names() -> list[str]:
    config = Member(0).config(PRESETS["paper"])
    return list(Progress([config], pair_split(config.task, 0)[None])(handmade(config)))


def test_every_measured_column_has_one_record(names):
    found = {name: [m for m in MEASURES if m.fields(name) is not None] for name in names}
    assert {name: len(records) for name, records in found.items() if len(records) != 1} == {}
    assert {m.name for records in found.values() for m in records} == {m.name for m in MEASURES}
    assert all(measure_of(name) is records[0] for name, records in found.items())


def test_labels_are_distinct_and_plain(names):
    labels = [column_label(name) for name in names]
    assert len(set(labels)) == len(labels) and not any("_" in label for label in labels if "norm" not in label)
    assert column_label("attn_l2_equal_to_values (1-var)") == "layer 2: = attends to the values, one variable"
    assert column_label("accuracy b second") == "sums with b in the second slot"


def test_the_paper_has_seven_measures():
    assert len([m for m in MEASURES if m.paper]) == 7 and all(m.panel and m.level for m in MEASURES if m.paper)


def test_an_unknown_column_is_an_error():
    with pytest.raises(ValueError, match="no measured column is called 'loss'"):
        measure_of("loss")
