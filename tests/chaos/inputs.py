"""Bad input of every kind: an error of one line, or an answer; never another exception, and nothing is changed."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import random
import string
from pathlib import Path
from typing import Any

import torch

from assignadd.cli import arguments, main
from assignadd.cli.train import Train
from assignadd.config import PRESETS, Config, validate
from assignadd.config.errors import UserError
from assignadd.interventions.specification import ACTIONS, COMPONENTS, FIELDS, read_specification, to_json
from assignadd.runs.config_json import read_config
from assignadd.runs.transformer_lens import import_state_dicts
from assignadd.sweeps.plan import sweep_from_file
from assignadd.task.positions import ROLES
from assignadd.task.text import answer, parse
from tests.chaos.promise import Promise
from tests.hooks import HOOKS
from tests.runs.small import CONFIG, train
from tests.runs.test_destination import everything
from tests.runs.test_transformer_lens import state_dict

TASK = PRESETS["paper"].task
PROMPTS = ("c=1, b=17, a=42, b+19=?", "c 1 . b 17 + b 19 =", "b=4, d=2, b+1=?", "1+2=?")
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2.0, 1e308, 10**400, "", "x", "\0", [], {}, [[]], ["equals"], {"equals": 1}, [1], "equals", 3,
)  # fmt: skip


def refuses_in_a_line(function: Any, *arguments: Any) -> Any:
    """What the function returns, or None where it refuses in one line of bounded length."""
    try:
        return function(*arguments)
    except UserError as error:
        assert "\n" not in str(error) and 0 < len(str(error)) < 2000, str(error)[:300]
        return None


def prompt(rng: random.Random, folder: Path) -> None:
    for _ in range(20):
        text = list(rng.choice(PROMPTS))
        for _ in range(rng.randint(0, 4)):
            text.insert(
                rng.randint(0, len(text)), rng.choice("abcdefghijklm0123456789+=.,?- \n\t\0\x1b\udcffé" + "9" * 9)
            )
            del text[rng.randrange(len(text)) :: rng.choice((1000, 7, 3))]
        tokens = refuses_in_a_line(parse, "".join(text), TASK)
        assert tokens is None or (len(tokens) == TASK.length and 0 <= answer(tokens, TASK) < TASK.modulus)


def specification(rng: random.Random, folder: Path) -> None:
    for _ in range(10):
        values = (*VALUES, *ACTIONS, *HOOKS[:3], *COMPONENTS, *ROLES[:3])
        fields = {k: rng.choice(values) for k in rng.sample(sorted(FIELDS), rng.randint(0, 6))}
        one = fields | ({"action": rng.choice(ACTIONS)} if rng.random() < 0.9 else {})
        found = refuses_in_a_line(read_specification, json.dumps([one]))
        assert found is None or read_specification(to_json(found)) == found


def setting(rng: random.Random, folder: Path) -> None:
    """One field with a wrong value, from the shell, from JSON and from Python: all three refuse, or all three agree."""
    section = rng.choice(dataclasses.fields(Config)).name
    base = PRESETS["smoke"]
    field = rng.choice(dataclasses.fields(getattr(base, section))).name
    value = rng.choice((None, "", "x", -1, 1.5, float("inf"), 10**400, [], {}, True, "\0", [1, "a"]))
    (folder / "mine.json").write_text(json.dumps({section: {field: value}}))
    from_json = refuses_in_a_line(read_config, folder / "mine.json", base)

    def from_python() -> Config:
        changed = dataclasses.replace(base, **{section: dataclasses.replace(getattr(base, section), **{field: value})})
        validate(changed)
        return changed

    made = refuses_in_a_line(from_python)
    assert isinstance(value, list) or (made is None) == (from_json is None) or type(value) is int, (
        section,
        field,
        value,
    )
    words = [f"--{section}.{field.replace('_', '-')}", str(value)]
    refuses_in_a_line(arguments.read, Train, ["--preset", "smoke", *words], "train")


def hostile_file(rng: random.Random, folder: Path) -> None:
    """A damaged or odd file for import and for a sweep."""
    kind = rng.choice(("pth", "csv", "json"))
    if kind == "pth":
        buffer = io.BytesIO()
        odd = rng.choice(
            (torch.uint16, torch.float8_e4m3fn, torch.complex64, torch.int8, torch.bfloat16, torch.float32)
        )
        torch.save(state_dict() | {rng.choice(("unembed.b_U", "embed.W_E")): torch.zeros(5).to(odd)}, buffer)
    elif kind == "csv":
        buffer = io.BytesIO()
        buffer.write(b"lr,seed\n0.1,1\n0.2,2\n")
    else:
        buffer = io.BytesIO(json.dumps([{"lr": 0.1, "seed": 1}]).encode())
    data = bytearray(buffer.getvalue())
    for _ in range(rng.randint(0, 4)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    path = folder / {"pth": "checkpoint_step_7.pth"}.get(kind, f"mine.{kind}")
    rng.choice((path.write_bytes, path.write_bytes, path.write_bytes, lambda _: os.mkfifo(path)))(bytes(data))
    if kind == "pth":
        refuses_in_a_line(import_state_dicts, [path], CONFIG, folder / "run")
    else:
        refuses_in_a_line(sweep_from_file, path, PRESETS["smoke"], (0,))


def hostile_name(rng: random.Random, folder: Path) -> None:
    letters = string.ascii_letters + "*?[]{}~$`'\"\\;|&<>-\n\r\t\x1b\x07 é\udcff\u202e"
    name = "".join(rng.choice(letters) for _ in range(rng.randint(1, 12)))
    train(folder / "runs" / name, 0)
    before, here = everything(folder), Path.cwd()
    os.chdir(folder)
    try:
        shown = io.StringIO()
        for arguments in (["runs", "list"], ["runs", "verify", f"runs/{name}"], ["measure", f"runs/{name}-none"]):
            with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
                assert main(arguments) in (0, 1, 2)
        assert shown.getvalue().replace("\n", "").isprintable()
    finally:
        os.chdir(here)
    assert everything(folder) == before


PROMISES = (
    Promise("prompts", "20 fuzzed prompts are read as a sum, or refused in a line", prompt, 1000, 3),
    Promise("specifications", "10 fuzzed interventions are read as written, or refused", specification, 500, 3),
    Promise("settings", "a wrong setting is refused in a line, from the shell, JSON and Python", setting, 400, 5),
    Promise("hostile-files", "a hostile file for import or a sweep is refused, or read", hostile_file, 200, 5),
    Promise("hostile-names", "a run of any name is listed and verified, and nothing is changed", hostile_name, 50, 2),
)  # fmt: skip
