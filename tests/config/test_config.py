"""Every setting's range, what is refused and in which words, the presets, and a stack's members."""

import dataclasses
import math
import re

import pytest

from assignadd.config import (
    PRESETS,
    Config,
    ConfigError,
    Member,
    Model,
    Numerics,
    Optim,
    Recording,
    Seeds,
    Start,
    Task,
    with_settings,
)

SECTIONS = {
    **{"task": Task, "model": Model, "optim": Optim, "record": Recording, "seed": Seeds, "numerics": Numerics},
    "start": Start,
}
BIG = 2**63 - 1
# field: lowest, highest, and what else must change for the lowest and for the highest to make sense
ONE_ASSIGNMENT = {"max_assignments": 1, "two_var_ratio": 0.0}
RANGES = {
    "task.modulus": (2, 997, {}, {}),
    "task.n_vars": (1, 26, {**ONE_ASSIGNMENT, "banned_first": "", "banned_second": ""}, {}),
    "task.length": (6, 256, ONE_ASSIGNMENT, {}),
    "task.max_assignments": (1, 26, {"two_var_ratio": 0.0}, {"n_vars": 26, "length": 56}),
    "task.seen_fraction": (0.0, 1.0, None, {}),  # no pair at all is refused further down
    "task.one_var_ratio": (0.0, 1000.0, {}, {}),
    "task.two_var_ratio": (0.0, 1000.0, {}, {}),
    "task.operands": (1, 4, {}, {"modulus": 32, "length": 18}),
    "task.hops": (0, 25, {}, {"n_vars": 26, "max_assignments": 26, "length": 56}),
    "task.rebinding": (0.0, 1.0, {}, {}),
    "task.seen_doubles": (0.0, 1.0, {}, {}),
    "task.held_out_distance": (0, 996, {}, {}),
    "task.doubles_weight": (1, 64, {}, {}),
    "model.n_layers": (1, 16, {"d_mlp": (512,)}, {"d_mlp": (None,) * 16}),
    "model.n_heads": (1, 64, {}, {}),
    "model.d_model": (1, 4096, {}, {}),
    "model.d_head": (1, 4096, {}, {}),
    "model.init_scale": (1e-6, 3.0, {}, {}),
    "optim.lr": (0.0, 10.0, {}, {}),
    "optim.weight_decay": (0.0, 100.0, {}, {}),
    "optim.beta1": (0.0, 0.999999, {}, {}),
    "optim.beta2": (0.0, 0.99999999, {}, {}),
    "optim.eps": (1e-16, 1.0, {}, {}),
    "optim.batch": (1, 2**20, {}, {}),
    "optim.steps": (0, 2**31, {}, {}),
    "optim.warmup": (0, 2**31, {}, {}),
    "optim.later_lr": (0.0, 10.0, {}, {}),
    "optim.later_from": (0, 2**31, {}, {}),
    "optim.frozen_from": (0, 2**31 - 1, {}, {"frozen_until": 2**31}),
    "optim.frozen_until": (0, 2**31, {}, {}),
    "optim.literals_from": (0, 2**31, {}, {}),
    "optim.slot_score": (-50.0, 50.0, {}, {}),
    "optim.slot_score_from": (0, 2**31, {}, {}),
    "optim.slot_score_until": (0, 2**31, {}, {}),
    "start.mlp_in_factor": (0.0, 1000.0, {}, {}),
    "start.mlp_out_factor": (0.0, 1000.0, {}, {}),
    "record.eval_every": (1, 2**31, {}, {}),
    "record.eval_sequences": (1, 2**20, {}, {}),
    "record.checkpoint_every": (1, 2**31, {}, {}),
    "record.state_every": (1, 2**31, {}, {}),
    "record.measure_every": (0, 2**31, {}, {}),
    "record.final_sequences": (0, 2**20, {}, {}),
    "seed.init": (0, BIG, {}, {}),
    "seed.data": (0, BIG, {}, {}),
    "seed.split": (0, BIG, {}, {}),
}
CHOICES = {
    "task.unordered_split": [False, True],
    "task.random_padding": [False, True],
    "task.shuffled_distance": [False, True],
    "model.activation": ["relu", "gelu", "abs"],
    "model.norm": ["none", "layer", "rms"],
    "model.biases": [False, True],
    "model.direct_path": [False, True],
    "optim.frozen": ["none", "W_E", "QK1", "OV1", "QK2", "OV2", "MLP2"],
    "start.part": ["none", "W_E", "QK1", "OV1", "QK2", "OV2", "MLP2"],
    "record.log_spaced": [False, True],
    "numerics.dtype": ["float32", "float64"],
    "numerics.tf32": [False, True],
    "numerics.loss_in_float64": [False, True],
}
MAY_BE_NONE = ("seed.init", "seed.data", "seed.split", "optim.later_lr", "task.seen_doubles", "task.held_out_distance")
RULES_OF_THEIR_OWN = {
    *("task.banned_first", "task.banned_second", "task.banned_further", "task.operation", "task.table", "model.d_mlp"),
    *("start.network", "start.part_from", "task.file", "model.file"),
}


def configured(name, value, **others):
    section, field = name.split(".")
    return Config(**{section: SECTIONS[section](**{**others, field: value})})


def refusal(name, value, **others):
    """The one line with which a value is refused: it names the field and the value."""
    with pytest.raises(ConfigError) as caught:
        configured(name, value, **others)
    message = str(caught.value)
    assert message.startswith(f"{name} = {value!r}: expected ") and len(message.splitlines()) == 1
    return message.removeprefix(f"{name} = {value!r}: expected ")


def test_every_field_is_tested_below():
    fields = {f"{section}.{f.name}" for section, cls in SECTIONS.items() for f in dataclasses.fields(cls)}
    assert fields == RANGES.keys() | CHOICES.keys() | RULES_OF_THEIR_OWN
    assert {f.name for f in dataclasses.fields(Config)} == SECTIONS.keys()


@pytest.mark.parametrize(("name", "what"), [("task.file", "a task"), ("model.file", "a network")])
def test_a_file_is_described_by_its_option_alone(name, what):
    assert refusal(name, "own.py").startswith(f"the description of {what} that ")


@pytest.mark.parametrize("name", RANGES)
def test_a_range_holds_its_ends_and_nothing_beyond(name):
    low, high, with_low, with_high = RANGES[name]
    whole = isinstance(low, int)
    if with_low is not None:
        configured(name, low, **with_low)
    configured(name, high, **with_high)
    accepted = f"{'a whole number' if whole else 'a number'} from {low} to {high}"
    beyond = (
        [low - 1, high + 1]
        if whole
        else [math.nextafter(low, -math.inf), math.nextafter(high, math.inf), low - 1.0, math.inf]
    )
    for value in beyond:
        assert refusal(name, value) == accepted


@pytest.mark.parametrize("name", RANGES)
def test_a_range_takes_numbers_of_its_kind_only(name):
    whole = isinstance(RANGES[name][0], int)
    wrong = ["1", True, [1], math.nan] + ([1.0, 1.5] if whole else []) + ([] if name in MAY_BE_NONE else [None])
    for value in wrong:
        assert refusal(name, value).startswith("a whole number from" if whole else "a number from")


def test_a_whole_number_is_a_number():
    assert configured("optim.lr", 1).optim.lr == 1


@pytest.mark.parametrize("name", CHOICES)
def test_choices(name):
    for value in CHOICES[name]:
        section, field = name.split(".")
        others = {"part_from": "census-six:0"} if name == "start.part" else {}
        assert getattr(getattr(configured(name, value, **others), section), field) == value
    boolean = CHOICES[name] == [False, True]
    for value in ("tanh", "", None, 1, "true"):
        assert refusal(name, value) == ("true or false" if boolean else "one of " + ", ".join(CHOICES[name]))


@pytest.mark.parametrize("name", ["start.network", "start.part_from"])
def test_a_network_is_a_run_and_a_seed(name):
    for good in ("census-six:3", "runs/a b:c/d:0@50000", "../x:9223372036854775807", "initial:7", None):
        configured(name, good)
    bad = ("census-six", "census-six:", ":3", "census-six:-1", "census-six:3@", "census-six:3@x", "", "a\nb:3", 3, True)
    for value in (*bad, ["a:0"], "x:9223372036854775808"):
        assert refusal(name, value) == "a run and a seed, such as census-six:3 or census-six:3@50000"


def test_a_part_needs_a_network_that_it_is_taken_from():
    with pytest.raises(ConfigError, match=r"start.part_from = None: expected a network such as census-six:0 whose OV1"):
        Config(start=Start(part="OV1"))
    with pytest.raises(ConfigError, match=r"start.part = 'MLP2': expected another part: there is no MLP after layer 2"):
        Config(model=Model(d_mlp=(None, None)), start=Start(part="MLP2", part_from="census-six:0"))


@pytest.mark.parametrize("cls", SECTIONS.values())
def test_an_unknown_field_is_named(cls):
    with pytest.raises(TypeError, match="n_varz"):
        cls(n_varz=3)


@pytest.mark.parametrize("slot", ["banned_first", "banned_second", "banned_further"])
@pytest.mark.parametrize("banned", ["m", "aa", "A", "a,b", "é", 3, None, ["a"]])
def test_bans_are_distinct_letters_of_the_alphabet(slot, banned):
    assert refusal(f"task.{slot}", banned) == "distinct letters among abcdefghijkl"
    configured(f"task.{slot}", "")
    configured(f"task.{slot}", "la")


NO_BANS = {"banned_first": "", "banned_second": ""}
IMPOSSIBLE = [
    # what is changed, the field that is named, its value, what is accepted
    ({"n_vars": 27}, "task.n_vars", 27, "a whole number from 1 to 26"),
    ({"n_vars": 4, **NO_BANS}, "task.max_assignments", 6, "at most task.n_vars = 4, one per variable"),
    ({"n_vars": 4}, "task.banned_second", "gh", "distinct letters among abcd"),
    (
        {"n_vars": 1, "max_assignments": 1, **NO_BANS},
        "task.n_vars",
        1,
        "at least 2 for sequences with 2 variables, or task.two_var_ratio = 0",
    ),
    (
        {"max_assignments": 1},
        "task.max_assignments",
        1,
        "at least 2 for sequences with 2 variables, or task.two_var_ratio = 0",
    ),
    ({"length": 15}, "task.length", 15, "at least 16 to hold 6 assignments"),
    ({"length": 5}, "task.length", 5, "a whole number from 6 to 256"),
    ({"max_assignments": 7}, "task.length", 16, "at least 18 to hold 7 assignments"),
    ({"seen_fraction": 0.0}, "task.seen_fraction", 0.0, "at least 0.000288, one tuple of numbers"),
    ({"seen_fraction": 0.0002}, "task.seen_fraction", 0.0002, "at least 0.000288, one tuple of numbers"),
    (
        {"banned_first": "lkjihgfedcba"},
        "task.banned_first",
        "lkjihgfedcba",
        "a ban that leaves a variable to train on, or task.one_var_ratio = 0",
    ),
    (
        {"n_vars": 2, "max_assignments": 2, "banned_first": "", "banned_second": "ba"},
        "task.banned_second",
        "ba",
        "a ban that leaves a variable to train on, or task.one_var_ratio = 0",
    ),
    (
        {"n_vars": 2, "max_assignments": 2, "banned_first": "a", "banned_second": "a"},  # only b + b would be left
        "task.banned_second",
        "a",
        "a ban that leaves 2 different variables for the slots, or task.two_var_ratio = 0",
    ),
    (
        {"banned_first": "abcdefghijkl", "one_var_ratio": 0.0},
        "task.banned_second",
        "gh",
        "a ban that leaves 2 different variables for the slots, or task.two_var_ratio = 0",
    ),
    # other members of the family of tasks
    ({"operands": 3}, "task.length", 16, "at least 17 to hold 6 assignments"),
    (
        {"operands": 4, "length": 18},
        "task.operands",
        4,
        "fewer, or a smaller task.modulus: N^operands is at most 1048576",
    ),
    (
        {"operands": 3, "length": 17, "max_assignments": 2},
        "task.max_assignments",
        2,
        "at least 3 for sequences with 3 variables, or task.two_var_ratio = 0",
    ),
    (
        {
            "operands": 3,
            "length": 17,
            "banned_first": "cdefghijkl",
            "banned_second": "cdefghijkl",
            "banned_further": "cdefghijkl",
        },
        "task.banned_further",
        "cdefghijkl",  # a and b for three slots
        "a ban that leaves 3 different variables for the slots, or task.two_var_ratio = 0",
    ),
    ({"operands": 1, "seen_fraction": 0.01}, "task.seen_fraction", 0.01, "at least 0.01695, one tuple of numbers"),
    ({"hops": 6}, "task.hops", 6, "fewer than task.max_assignments = 6, to hold a chain of that many links"),
    (
        {"rebinding": 0.1, "max_assignments": 1, "two_var_ratio": 0.0},
        "task.rebinding",
        0.1,
        "0, or task.max_assignments of at least 2",
    ),
    ({"operation": "affine 3 59"}, "task.operation", "affine 3 59", "factors from 0 to 58 after affine"),
    ({"operation": "dihedral"}, "task.modulus", 59, "an even number, the order of a dihedral group"),
    ({"operation": "table"}, "task.table", "0 numbers", "59 x 59 numbers from 0 to 58 for task.modulus = 59"),
    (
        {"modulus": 2, "operation": "table", "table": (0, 1, 1, 2)},
        "task.table",
        "4 numbers",
        "2 x 2 numbers from 0 to 1 for task.modulus = 2",
    ),
    ({"table": (0,)}, "task.table", (0,), "none, as task.operation is not table"),
    *(
        (
            {"operation": x},
            "task.operation",
            x,
            "add, subtract, multiply, dihedral, 'affine P Q', or a file with a table of answers",
        )
        for x in ("divide", "", "affine", "affine 2", "affine  2 3", "affine 02 3", "affine -1 3", None, 3)
    ),
]


@pytest.mark.parametrize(("changes", "name", "value", "accepted"), IMPOSSIBLE)
def test_impossible_combinations_are_refused_in_words(changes, name, value, accepted):
    with pytest.raises(ConfigError, match="^" + re.escape(f"{name} = {value!r}: expected {accepted}") + "$"):
        Config(task=Task(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"n_vars": 1, "max_assignments": 1, "two_var_ratio": 0.0, **NO_BANS},
        {"max_assignments": 1, "two_var_ratio": 0.0},
        {"length": 16},
        {"seen_fraction": 0.000288},
        {"banned_first": "abcdefghijkl", "one_var_ratio": 0.0, "two_var_ratio": 0.0},
        {"n_vars": 2, "max_assignments": 2, "banned_first": "a", "banned_second": "b"},  # b + a is left
        {"n_vars": 2, "max_assignments": 2, "banned_first": "a", "banned_second": "a", "two_var_ratio": 0.0},
        {"n_vars": 3, "max_assignments": 2, "banned_first": "bc", "banned_second": "ab"},  # a + c is left
    ],
)
def test_the_ways_out_that_the_messages_name_are_open(changes):
    Config(task=Task(**changes))


@pytest.mark.parametrize(
    "d_mlp", [(512,), (None, 512, None), (), 512, None, "ab", (None, 0), (None, 65537), (None, 1.5), (None, True)]
)
def test_mlp_widths_are_one_per_layer(d_mlp):
    accepted = refusal("model.d_mlp", d_mlp)
    wrong_number = not isinstance(d_mlp, tuple) or len(d_mlp) != 2
    assert accepted == (
        "a tuple with one width or None for each of the 2 layers" if wrong_number else "widths from 1 to 65536, or None"
    )


@pytest.mark.parametrize("d_mlp", [(None, None), (1, 65536), (512, None)])
def test_any_layer_may_have_an_mlp_or_none(d_mlp):
    assert configured("model.d_mlp", d_mlp).model.d_mlp == d_mlp


def test_without_a_direct_path_the_last_layer_has_an_mlp():
    with pytest.raises(ConfigError, match=r"model.direct_path = False: expected true: there is no MLP"):
        Config(model=Model(d_mlp=(512, None), direct_path=False))


def test_the_presets_are_the_spec():
    paper, authors = PRESETS["paper"], PRESETS["authors"]
    assert (paper.task.banned_first, paper.task.banned_second) == ("ab", "gh")
    assert (authors.task.banned_first, authors.task.banned_second) == ("kl", "ab")
    assert dataclasses.replace(authors, task=paper.task) == paper == Config()
    task, model, optim = paper.task, paper.model, paper.optim
    assert (task.modulus, task.n_vars, task.variables, task.length, task.prefix, task.max_assignments) == (
        59,
        12,
        "abcdefghijkl",
        16,
        12,
        6,
    )
    assert (model.n_layers, model.n_heads, model.d_model, model.d_head, model.d_mlp) == (2, 1, 128, 128, (None, 512))
    assert (model.activation, model.norm, model.biases, model.init_scale) == ("relu", "none", False, 0.8)
    assert (optim.lr, optim.weight_decay, optim.beta1, optim.beta2, optim.eps) == (1e-3, 0.02, 0.9, 0.999, 1e-8)
    assert (optim.batch, optim.steps, paper.record.eval_every) == (512, 30_000, 100)
    assert (paper.numerics.dtype, paper.numerics.tf32) == ("float32", False)


def test_the_mix_is_12_to_20_to_10():
    assert Task().mix == pytest.approx((12 / 42, 10 / 42, 10 / 42, 10 / 42))
    assert Task(one_var_ratio=0.0, two_var_ratio=0.0).mix == (1, 0, 0, 0)
    zero, first, second, two = Task(two_var_ratio=0.2).mix
    assert (first + second) / zero == pytest.approx(20 / 12) and two / zero == pytest.approx(0.2) and first == second


def test_configurations_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().task.modulus = 7


def test_a_members_own_settings_replace_the_stacks():
    base = Config(optim=Optim(batch=64), seed=Seeds(split=3))
    own = Member(seed=8, lr=0.5, seen_fraction=0.25, two_var_ratio=0.0).config(base)
    assert own.seed == Seeds(init=8, data=8, split=3)
    assert own.optim == Optim(batch=64, lr=0.5)
    assert own.task == Task(seen_fraction=0.25, two_var_ratio=0.0)
    assert (own.model, own.record, own.numerics) == (base.model, base.record, base.numerics)
    assert Member(seed=8).config(Config()).seed == Seeds(8, 8, 8)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_members_seed_fits_63_bits(seed):
    with pytest.raises(ConfigError, match=rf"^seeds = {seed}: expected a whole number from 0 to 2\^63 - 1$"):
        Member(seed=seed).config(Config())
    assert Member(seed=2**63 - 1).config(Config()).seed.init == 2**63 - 1


def test_a_member_is_split_into_the_shape_of_its_stack_and_what_is_its_own():
    member = Member(3, {"model.n_heads": 2, "task.modulus": 29, "seed.init": 7, "optim.beta1": 0.8}, lr=0.5)
    of_stack, own = member.divided()
    stack = with_settings(Config(), dict(of_stack))
    assert stack == Config(task=Task(modulus=29), model=Model(n_heads=2))
    assert own == Member(3, {"seed.init": 7, "optim.beta1": 0.8, "optim.lr": 0.5})
    assert own.config(stack) == member.config(Config())
    assert member.config(Config()).seed == Seeds(init=7, data=3, split=3)
    assert Member(3, {"optim.lr": 1, "optim.beta1": None}) == Member(3, lr=1.0)  # None is the value of the others


@pytest.mark.parametrize("name", ["optim.rate", "rate", "optim", "optimiser.lr", "task.prefix"])
def test_a_setting_that_does_not_exist_is_refused(name):
    with pytest.raises(ConfigError, match=rf"^{name} = 1: expected the name of a setting"):
        Member(0, {name: 1}).config(Config())


def test_a_members_own_settings_are_validated():
    with pytest.raises(ConfigError, match=r"^task\.seen_fraction = 2\.0: expected a number from 0\.0 to 1\.0$"):
        Member(seed=0, seen_fraction=2.0).config(Config())
