"""Every measured column has one record, and all labels differ."""

import re

import pytest
import torch

from assignadd.config import PRESETS, Member
from assignadd.measures.columns import MEASURES, ProgressMeasures, column_label, measure_of, not_defined, require_column
from assignadd.model.architecture import NotDefined
from assignadd.model.handmade import handmade
from assignadd.task.splits import pair_split
from tests.architectures import ARCHITECTURES, random_stack


@pytest.fixture(scope="module")
def names() -> list[str]:
    config = Member(0).config(PRESETS["paper"])
    return list(ProgressMeasures([config], pair_split(config.task, 0)[None])(handmade(config)))


def test_every_measured_column_has_one_record(names):
    found = {name: [m for m in MEASURES if m.fields(name) is not None] for name in names}
    assert {name: len(records) for name, records in found.items() if len(records) != 1} == {}
    elsewhere = r"(attn|mass)_l([3-9]|1\d|[12]_.*head|1_equal_to_values|2_(num|equal_to_operands))"  # layers, heads
    assert {m.name for records in found.values() for m in records} == {
        m.name for m in MEASURES if not re.match(elsewhere, m.name)
    }
    assert all(measure_of(name) is records[0] for name, records in found.items())


def test_labels_are_distinct_and_plain(names):
    labels = [column_label(name) for name in names]
    assert len(set(labels)) == len(labels) and not any("_" in label for label in labels if "norm" not in label)
    assert column_label("attn_l2_equal_to_values (1-var)") == "layer 2: = attends to the values, one variable"
    assert column_label("accuracy b second") == "sums with b in the second slot"


def test_the_paper_has_seven_measures():
    assert len([m for m in MEASURES if m.paper]) == 7 and all(m.panel and m.threshold for m in MEASURES if m.paper)


def test_an_unknown_column_is_an_error():
    with pytest.raises(ValueError, match="no measured column is called 'loss'"):
        measure_of("loss")


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_columns_of_other_architectures_are_those_whose_needs_they_meet(name):
    config = Member(0).config(ARCHITECTURES[name])
    stack, seen = random_stack(config), pair_split(config.task, 0)[None]
    columns = ProgressMeasures([config], seen, 64, 8)(stack)
    missing, layers = not_defined(config), range(1, config.model.n_layers + 1)
    for record in MEASURES:
        is_here = bool(record.columns(columns))
        if record.name in missing:
            assert not is_here, record.name
        elif not re.match("(attn|mass)_", record.name):
            assert is_here, record.name
    rates = {f"attn_l{i}_{to}" for i in layers[:-1] for to in ("num_to_prev", "equal_to_operands")}
    rates |= {f"attn_l{i}_equal_to_values" for i in layers[1:]}
    assert {c.removesuffix(" (1-var)") for c in columns if c.startswith("attn_") and c.endswith("(1-var)")} == rates
    has_heads = any("head 1" in c for c in columns)
    assert has_heads == (name == "two heads") and len({column_label(c) for c in columns}) == len(columns)
    assert all(torch.isfinite(columns[c]).all() for c in columns if c.startswith("mass_") and "training" not in c)


def test_what_is_not_defined_is_listed_with_the_reason():
    assert not_defined(PRESETS["paper"]) == {}
    assert not_defined(ARCHITECTURES["two heads"])["qk2_ov1_var_identity"] == "needs one head per layer"
    assert "qk1_num_to_prev_var" not in not_defined(ARCHITECTURES["gelu"])
    assert not_defined(ARCHITECTURES["gelu"])["ov2_mlp2_accuracy"] == "needs the activation ReLU"
    with pytest.raises(NotDefined, match="ov2_mlp2_accuracy is not defined for this network: it needs two layers"):
        require_column(ARCHITECTURES["three layers"], "ov2_mlp2_accuracy")
