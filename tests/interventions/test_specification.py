"""Specifications survive writing and reading, and wrong ones raise an error that names the field."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignadd.config import ConfigError
from assignadd.interventions.specification import (
    COMPONENTS,
    Cut,
    Pattern,
    Replace,
    Swap,
    read_specification,
    specification,
    to_json,
)  # fmt: skip
from assignadd.task.positions import ROLES
from tests.hooks import HOOKS, NEURON_HOOKS

PLACES = st.one_of(st.sampled_from(ROLES), st.integers(0, 15))
SOME = st.none() | st.lists(PLACES, min_size=1, max_size=3).map(tuple)
NUMBERS = st.none() | st.lists(st.integers(1, 29), min_size=1, max_size=3).map(tuple)
REPLACE = st.one_of(
    st.builds(Replace, st.sampled_from(["zero", "mean", "resample"]), st.sampled_from(HOOKS), SOME),
    st.builds(Replace, st.just("mean"), st.sampled_from(NEURON_HOOKS), SOME, NUMBERS, NUMBERS),
    st.builds(Replace, st.just("patch"), st.sampled_from(HOOKS), SOME, source=st.just("c=1, c+2=?")),
)
OTHERS = st.one_of(
    st.builds(Cut, st.sampled_from([1, 2]), PLACES, st.sampled_from(ROLES) | st.just(0)),
    st.builds(
        Pattern,
        st.sampled_from([1, 2]),
        PLACES,
        st.dictionaries(st.sampled_from(ROLES) | st.just("7"), st.floats(0, 1)),
    ),
    st.builds(
        Swap,
        st.sampled_from(list(COMPONENTS)),
        st.none() | st.integers(0, 10**6),
        st.none() | st.integers(0, 9),
        st.none() | st.just("r"),
    ).filter(lambda swap: (swap.step, swap.seed, swap.run) != (None, None, None)),
)


@given(st.lists(REPLACE | OTHERS, max_size=4))
def test_writing_and_reading_gives_the_same_interventions(interventions):
    assert read_specification(to_json(interventions)) == tuple(interventions)


def test_the_documented_examples(tmp_path):
    text = """[{"action": "zero", "hook": "blocks.1.hook_attn_out", "positions": ["first", 3], "neurons": null},
        {"action": "cut", "layer": 2, "query": "equals", "key": "first_value"},
        {"action": "pattern", "layer": 2, "query": "equals", "weights": {"first_value": 0.5, "second_value": 0.5}},
        {"action": "swap", "component": "mlp2", "step": 5300, "seed": 3, "run": null}]"""
    expected = (
        Replace("zero", "blocks.1.hook_attn_out", ("first", 3)), Cut(2, "equals", "first_value"),
        Pattern(2, "equals", {"first_value": 0.5, "second_value": 0.5}), Swap("mlp2", 5300, 3),
    )  # fmt: skip
    assert read_specification(text) == expected
    (tmp_path / "x.json").write_text(text)
    assert read_specification(str(tmp_path / "x.json")) == expected


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"action": "zap"}, "action"), ({"hook": "hook_embed"}, "action"), ("zero", "action"),
        ({"action": "zero"}, "hook"), ({"action": "zero", "hook": "hook_q"}, "hook"),
        ({"action": "zero", "hook": "blocks.x.hook_attn_out"}, "hook"), ({"action": "zero", "hook": ["a"]}, "hook"),
        ({"action": "zero", "hook": "hook_embed", "position": [1]}, "position"),
        ({"action": "zero", "hook": "hook_embed", "positions": []}, "positions"),
        ({"action": "zero", "hook": "hook_embed", "positions": ["last"]}, "positions"),
        ({"action": "zero", "hook": "hook_embed", "positions": [True]}, "positions"),
        ({"action": "zero", "hook": "hook_embed", "positions": "equals"}, "positions"),
        ({"action": "zero", "hook": "hook_embed", "positions": [-1]}, "positions"),
        ({"action": "zero", "hook": "hook_embed", "neurons": [1]}, "neurons"),
        ({"action": "zero", "hook": "hook_pos_embed", "frequencies": [1]}, "frequencies"),
        ({"action": "zero", "hook": "hook_embed", "frequencies": [0]}, "frequencies"),
        ({"action": "patch", "hook": "hook_embed"}, "source"),
        ({"action": "zero", "hook": "hook_embed", "source": "a=1, a+1=?"}, "source"),
        ({"action": "cut", "layer": 0, "query": "equals", "key": 0}, "layer"),
        ({"action": "cut", "layer": 1, "query": "equals"}, "key"),
        ({"action": "cut", "layer": 2.0, "query": "equals", "key": 0}, "layer"),
        ({"action": "cut", "layer": True, "query": "equals", "key": 0}, "layer"),
        ({"action": "cut", "layer": 1, "query": 3, "key": 5}, "key"),
        ({"action": {}}, "action"), ({"action": ["cut"]}, "action"),
        ({"action": "zero", "hook": {}}, "hook"), ({"action": "zero", "hook": ["hook_embed"]}, "hook"),
        ({"action": "swap", "component": {}, "step": 1}, "component"),
        ({"action": "swap", "component": "mlp2", "step": 1.0}, "step"),
        ({"action": "swap", "component": "mlp2", "step": -1}, "step"),
        ({"action": "cut", "layer": 1, "query": None, "key": 0}, "query"),
        ({"action": "pattern", "layer": 1, "query": 3, "weights": {"first": 2}}, "weights"),
        ({"action": "pattern", "layer": 1, "query": 3, "weights": {"-1": 1}}, "weights"),
        ({"action": "pattern", "layer": 1, "query": 3, "weights": {"٣": 1}}, "weights"),
        ({"action": "pattern", "layer": 1, "query": 3, "weights": {"0": 1, "00": 1}}, "weights"),
        ({"action": "swap", "component": "mlp0", "step": 1}, "component"),
        ({"action": "swap", "component": "mlp2"}, "step"),
    ],
)  # fmt: skip
def test_errors_name_the_field(value, field):
    with pytest.raises(ConfigError) as error:
        specification([{"action": "cut", "layer": 1, "query": 1, "key": 0}, value])
    assert str(error.value).startswith(f"interventions[1].{field} = ") and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text", ["{}", "[", '[{"action": "cut", "action": "cut"}]', "no/such/file.json", "\0", "x" * 5000]
)
def test_anything_but_a_list_is_an_error(text):
    with pytest.raises(ConfigError):
        read_specification(text)


def test_fields_that_are_none_are_not_written():
    assert json.loads(to_json([Replace("zero", "hook_embed")])) == [{"action": "zero", "hook": "hook_embed"}]
