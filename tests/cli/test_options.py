"""From a command line to settings: presets, files and seeds."""

import re
from dataclasses import is_dataclass
from importlib import import_module

import pytest

from assignadd.cli import COMMANDS, ELSEWHERE, main, options
from assignadd.config import PRESETS, ConfigError
from tests.cli.asking import complaint


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


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("ask", "PROMPT is missing; usage: assignadd ask PROMPT"),
        ("import", "FILE... is missing; usage: assignadd import FILE..."),
        ("ask --run", "--run needs a value"),
        ("eval x --n many", "n = 'many': expected a whole number"),
        ("eval x --n --json", "--n needs a value"),
        ("eval x y", "unexpected argument 'y'; `assignadd eval --help` lists the options"),
        ("eval x --json=3", "--json takes no value"),
        ("runs shw", "action = 'shw': expected one of list, show, verify"),
        ("bench --seconds x", "seconds = 'x': expected a number"),
        ("interchange r --search a", "search = 'a': expected a whole number"),
        ("train --model.d-mlp None x", "model.d_mlp = 'x': expected a whole number"),
        ("train --model.d-mlp None 8 9", "model.d_mlp = (None, 8, 9): expected a tuple with one width or None"),
        ("train --numerics.dtype half", "numerics.dtype = 'half': expected one of float32, float64"),
        ("train --seed.init=x", "seed.init = 'x': expected a whole number from 0"),
        ("train -x 3", "unknown option -x; `assignadd train --help` lists the options"),
        ("zoom r", "--around INT is missing; usage: assignadd zoom RUN --around INT"),
        ("zoom r --arround 3", "unknown option --arround; did you mean --around?"),
        ("trian", "no command 'trian'; did you mean 'train'?"),
    ],
)
def test_a_command_line_that_is_not_accepted_is_one_line(arguments, line, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert complaint(capsys, *arguments.split()).startswith(f"assignadd: {line}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_check_knows_every_option_that_tyro_lists(command, capsys):
    """Each flag of `--help`, and no other."""
    with pytest.raises(SystemExit):
        main([command, "--help"])
    listed = set(
        re.findall(r"(?:^[^\w-]*|, )(--?[a-z][a-z0-9.-]*)", capsys.readouterr().out, re.MULTILINE | re.IGNORECASE)
    )
    module = import_module(f"assignadd.cli.{ELSEWHERE.get(command, (command,))[0]}")
    kind = next(v for v in vars(module).values() if is_dataclass(v) and v.__name__.lower() == command)
    known = {flag for a in options._arguments(kind) if not a.positional for flag in a.flags}
    assert listed - {"-h", "--help"} == known
