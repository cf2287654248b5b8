"""From a command line to settings: presets, files and seeds."""

import pytest

from assignadd.cli import options
from assignadd.config import PRESETS, ConfigError


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ([], "paper"),
        (["--preset", "tiny"], "tiny"),
        (["--preset=smoke"], "smoke"),
        (["--preset", "tiny", "--n", "3", "--preset", "smoke"], "smoke"),
    ],
)
def test_the_preset_that_flags_start_from(arguments, name):
    assert options.base_config(arguments) == PRESETS[name]


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("3", [3]), ("0..3", [0, 1, 2, 3]), ("0,3", [0, 3]), (" 0 , 4..5 ", [0, 4, 5])],
)
def test_seeds(text, seeds):
    assert options.parse_seeds(text) == seeds


@pytest.mark.parametrize(
    "text", ["", "a", "1..", "..3", "3..1", "1.5", "-1", "0,0", "0..4096", "0..2000,3000..6000", "9" * 30]
)
def test_bad_seeds_are_refused(text):
    with pytest.raises(ConfigError, match="seeds"):
        options.parse_seeds(text)
