"""From a command line to settings: presets, files, seeds and mistakes."""

import pytest

from assignadd.cli import COMMANDS, arguments, command_class, main, options
from assignadd.config import PRESETS, Config, ConfigError
from tests.cli.asking import complaint


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ([], "paper"),
        (["--preset", "tiny"], "tiny"),
        (["--preset=smoke"], "smoke"),
        (["--preset", "tiny", "--seeds", "3", "--preset", "smoke"], "smoke"),
    ],
)
def test_the_preset_that_flags_start_from(words, name):
    assert arguments.read(command_class("train"), words, "train").settings == PRESETS[name]


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
    ("words", "line"),
    [
        ("ask", "the following arguments are required: PROMPT; usage: assignadd ask PROMPT [RUN] [OPTIONS]"),
        ("runs import", "the following arguments are required: FILE; usage: assignadd runs import FILE... [OPTIONS]"),
        ("measure x --n many", "n = 'many': expected a whole number"),
        ("measure x --n --json", "argument --n: expected one argument; usage: assignadd measure RUN... [OPTIONS]"),
        ("runs show x y", "unexpected argument 'y'; usage: assignadd runs show RUN [OPTIONS]"),
        ("measure x --json=3", "argument --json: ignored explicit argument '3'"),
        ("measure x --json --csv", "--json and --csv exclude each other"),
        ("train --steps 3", "unknown option --steps; did you mean --optim.steps?"),
        ("train --preset pape", "preset = 'pape': expected one of paper, authors, tiny, smoke; did you mean paper?"),
        ("measure census-sx", "no run at census-sx; did you mean census-six?"),
        (
            "claims --only qk2-identiy",
            "only = 'qk2-identiy': expected the id or label of a claim; did you mean qk2-identity?",
        ),
        ("ask show --set 2-var_train", "set = '2-var_train': expected one of"),
        ("runs tables sensus", "table = 'sensus': expected one of"),
        ("runs shw", "no action 'shw' of runs; did you mean show?"),
        ("theory --alpha x", "alpha = 'x': expected a number"),
        ("phases r", "no command 'phases'; did you mean measure phases?"),
        ("measure phase r", "no action 'phase' of measure; did you mean phases?"),
        ("sweep fractoin", "no sweep and no file 'fractoin'; did you mean fraction?"),
        ("intervene interchange r --pairs a", "pairs = 'a': expected a whole number"),
        ("train --model.d-mlp None x", "model.d_mlp = 'x': expected a whole number"),
        ("train --model.d-mlp None 8 9", "model.d_mlp = (None, 8, 9): expected a tuple with one width or None"),
        ("train --numerics.dtype half", "numerics.dtype = 'half': expected one of float32, float64"),
        ("train --seed.init=x", "seed.init = 'x': expected a whole number from 0"),
        ("train -x 3", "unknown option -x; `assignadd train --help` lists the options"),
        ("runs publish r", "the following arguments are required: --repo; usage: assignadd runs publish RUN --repo"),
        ("runs publish r --repo a/b --privat", "unknown option --privat; did you mean --private?"),
        ("trian", "no command 'trian'; did you mean train?"),
    ],
)
def test_a_command_line_that_is_not_accepted_is_one_line(words, line, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert complaint(capsys, *words.split(), code=1 if "no run" in line else 2).startswith(f"assignadd: {line}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_lists_every_option_with_what_it_means(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*command.split(), "--help"])
    assert stop.value.code == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"usage: assignadd {command}") and max(map(len, printed.splitlines())) <= 80
    for argument in arguments.arguments_of(command_class(command), with_help=True):
        assert argument.help, argument.name
        last = argument.flags[-1].removeprefix("--").rpartition(".")[2]  # of a bool that is on, --no-LAST is listed
        assert (argument.metavar if argument.positional else last) in printed, argument.name


def test_settings_take_every_kind_of_value():
    words = (
        "--model.d-mlp None 8 --model.biases --model.no-direct-path --task.n_vars=3 --seed.init None --optim.lr 1e-2"
    )
    settings = arguments.read(command_class("train"), ["--preset", "smoke", *words.split()], "train").settings
    assert settings.model.d_mlp == (None, 8) and settings.model.biases and not settings.model.direct_path
    assert (settings.task.n_vars, settings.seed.init, settings.optim.lr) == (3, None, 0.01)
    assert isinstance(settings, Config) and settings.task.modulus == PRESETS["smoke"].task.modulus
