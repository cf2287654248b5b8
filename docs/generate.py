"""Writes the pages of the docs that are generated from the code: commands.md, reference.md and data.md.

`make reference` runs it, and a test compares the pages with what it returns. Signatures, defaults and docstrings are
read from the source text, so nothing of the package is imported for the first two pages.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

DOCS = Path(__file__).parent
PACKAGE = DOCS.parent / "assignadd"
NOTE = "<!-- Written by docs/generate.py; edit the docstrings and run `make reference`. -->\n"

CONSTANTS = ("PRESETS",)
# The names of the reference, by module, under a heading each. The public names of `assignadd` come first.
REFERENCE = {
    "Reading a model": {
        "model.hooks": ("Hooked",),
        "model.transformer": ("Transformer",),
        "model.stack": ("Stack",),
        "model.circuits": ("QK", "OV"),
        "model.forward": ("trace", "answer_logits"),
        "model.trace": ("Trace",),
    },
    "The task": {
        "task.roles": ("roles", "Roles", "answers", "operand_slots"),
        "task.evalsets": ("EvalSet",),
        "task.sampler": ("Sampler",),
        "task.splits": ("pair_split",),
        "task.vocabulary": ("Vocabulary",),
    },
    "Interventions": {
        "interventions.apply": ("apply", "effect", "Effect"),
        "interventions.specification": ("read_specification", "Replace", "Cut", "Pattern", "Swap"),
    },
    "Runs, measures and claims": {
        "runs.folder": ("Run",),
        "measures.accuracies": ("Accuracy",),
        "measures.columns": ("Column",),
        "claims.record": ("Claim", "Reading", "Record", "Line"),
        "config": ("Config", "Task", "Model", "Optim", "Recording", "Seeds", "Numerics", "Start", "Member"),
    },
}


def pages() -> dict[str, str]:
    """The text of each generated page, by its file name."""
    return {"commands.md": commands(), "reference.md": reference(), "data.md": data_dictionary()}


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse((PACKAGE / f"{module.replace('.', '/')}.py").read_text())


def definition(module: str, name: str) -> ast.ClassDef | ast.FunctionDef:
    """The class or function of this name in a module, or in the module of the package that it is imported from."""
    for node in tree_of(module).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            if name == (alias.asname or alias.name):
                return definition(str(node.module).removeprefix("assignadd."), alias.name)  # type: ignore[attr-defined]
    raise LookupError(f"docs/generate.py: no class or function {name} in assignadd.{module}")


def fields(of: ast.ClassDef) -> Iterator[tuple[str, ast.expr, ast.expr | None, str]]:
    """Name, annotation, default and docstring of each annotated field of a class."""
    for node, following in zip(of.body, [*of.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            documented = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            text = " ".join(str(following.value.value).split()) if documented else ""  # type: ignore[union-attr]
            yield node.target.id, node.annotation, node.value, text


def cell(text: str) -> str:
    """The text for a cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")


# commands.md


def commands() -> str:
    """The page of all commands with their options, from the dataclasses that the command line is read into."""
    index = ast.parse((PACKAGE / "cli" / "__init__.py").read_text())
    named = next(node.value for node in index.body if isinstance(node, ast.Assign) and node.targets[0].id == "COMMANDS")  # type: ignore[attr-defined]
    kinds = dict(_command_classes())
    parts = [
        "# Commands\n", NOTE,
        "`assignadd COMMAND --help` prints the same. RUN is a run folder, its name under `runs/`, or a run that comes "
        "with the package (`census-six`, `census-two`, `small-trajectory`). Exit codes: 0 done, 1 failed or not there, "
        "2 bad input, 143 and 130 stopped by SIGTERM and Ctrl-C after saving.\n",
    ]  # fmt: skip
    for name, what in ast.literal_eval(named).items():
        of = kinds[name]
        parts += [f"## assignadd {name}\n", f"{(ast.get_docstring(of) or what).strip()}\n", _option_table(of)]
    return "\n".join(parts)


def _command_classes() -> Iterator[tuple[str, ast.ClassDef]]:
    """Each command with the class in `options.read(CLASS, arguments, "COMMAND")`."""
    for path in sorted((PACKAGE / "cli").glob("[!_]*.py")):
        tree = ast.parse(path.read_text())
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if ast.unparse(call.func) == "options.read":
                kind, _, command = call.args[:3]
                found = definition(f"cli.{path.stem}", ast.unparse(kind))
                assert isinstance(found, ast.ClassDef)
                yield ast.literal_eval(command), found


def _option_table(of: ast.ClassDef, prefix: str = "") -> str:
    rows, settings = [], ""
    for name, annotation, default, text in fields(of):
        kind = ast.unparse(annotation)
        if "Config," in kind:
            settings = "\n".join(_settings())
            continue
        if kind == "Task":
            rows.append("| `--task.*` | the preset's | Any setting of the task, as of [train](#assignadd-train). |")
            continue
        shown = "required" if default is None else _default(default)
        if "Positional" in kind:
            metavar = name.upper() if default is None else f"[{name.upper()}]"
            rows.append(f"| `{metavar}` | {shown} | {cell(text)} |")
        else:
            flag = f"--{prefix}{name.replace('_', '-')}"
            rows.append(f"| `{flag}` | {shown} | {cell(text)} |")
    return "\n".join(
        ["| argument | default | meaning |", "|---|---|---|", *rows, "", *([settings] if settings else [])]
    )


def _settings() -> Iterator[str]:
    """The tables of the settings of a configuration, a section each."""
    yield "Settings, which replace those of the preset:\n"
    config = definition("config", "Config")
    assert isinstance(config, ast.ClassDef)
    for section, annotation, _, _ in fields(config):
        of = definition("config", ast.unparse(annotation))
        assert isinstance(of, ast.ClassDef)
        yield _option_table(of, f"{section}.")


def _default(value: ast.expr) -> str:
    """A default as people type it."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) in ("ranged", "Path"):
        value = value.args[0]
    text = str(value.value) if isinstance(value, ast.Constant) else ast.unparse(value)
    return "" if text in ("None", "()", "") else "off" if text == "False" else "on" if text == "True" else f"`{text}`"


# reference.md


def reference() -> str:
    """The page of the Python interface: signatures and docstrings of the public names and of those in REFERENCE."""
    parts = [
        "# Python reference\n", NOTE,
        "`import assignadd` gives the names of the first section; the others are imported from the module that is "
        "named. Shapes are in the annotations: M models, B sequences, T positions, d the width, N numbers "
        "([glossary](names.md)).\n",
        "## assignadd\n",
    ]  # fmt: skip
    parts += [_entry(module, name, "assignadd") for module, name in _public()]
    for heading, modules in REFERENCE.items():
        parts.append(f"## {heading}\n")
        parts += [_entry(module, name, f"assignadd.{module}") for module, names in modules.items() for name in names]
    return "\n".join(parts)


def _public() -> Iterator[tuple[str, str]]:
    """Module and name of each public function of `assignadd`."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    homes = next(n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "_HOMES")
    for home, names in ast.literal_eval(homes).items():
        module = home.removeprefix("assignadd.")
        functions = [name for name in names if name not in CONSTANTS]
        yield from ((module, name) for name in functions if isinstance(definition(module, name), ast.FunctionDef))


def _entry(module: str, name: str, home: str) -> str:
    node = definition(module, name)
    if isinstance(node, ast.FunctionDef):
        return f"### `{home}.{name}`\n\n{_signature(node)}\n\n{ast.get_docstring(node)}\n"
    assert isinstance(node, ast.ClassDef)
    parts = [f"### `{home}.{name}`\n", f"{ast.get_docstring(node)}\n"]
    documented = [(own, ast.unparse(kind), text) for own, kind, _, text in fields(node)]
    if documented:
        rows = [f"| `{own}` | `{cell(kind)}` | {cell(text)} |" for own, kind, text in documented]
        parts.append("\n".join(["| field | type | meaning |", "|---|---|---|", *rows, ""]))
    parts += [f"It has the fields of `{base}` too.\n" for base in _bases(module, node)]
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_") and ast.get_docstring(method):
            is_property = any(ast.unparse(mark) in ("property", "cached_property") for mark in method.decorator_list)
            shown = f"`.{method.name}`" if is_property else _signature(method)
            parts.append(f"{shown}\n\n{ast.get_docstring(method)}\n")
    return "\n".join(parts)


def _bases(module: str, node: ast.ClassDef) -> list[str]:
    """The classes of the same module that a class with fields extends."""
    here = {other.name for other in tree_of(module).body if isinstance(other, ast.ClassDef)}
    return [base for base in map(ast.unparse, node.bases) if base in here]


def _signature(node: ast.FunctionDef) -> str:
    """A signature as a block of code, on several lines if it is long."""
    arguments = [part for part in _arguments(node.args) if part not in ("self", "cls")]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"def {node.name}({', '.join(arguments)}){returns}: ..."
    if len(line) > 100:
        line = "\n".join([f"def {node.name}(", *(f"    {part}," for part in arguments), f"){returns}: ..."])
    return f"```python\n{line}\n```"


def _arguments(of: ast.arguments) -> Iterator[str]:
    defaults: list[ast.expr | None] = [None] * (len(of.args) - len(of.defaults)) + list(of.defaults)
    starred = [f"*{ast.unparse(of.vararg)}"] if of.vararg else ["*"] if of.kwonlyargs else []
    for argument, default in zip(of.args, defaults, strict=True):
        yield _argument(argument, default)
    yield from starred
    for argument, default in zip(of.kwonlyargs, of.kw_defaults, strict=True):
        yield _argument(argument, default)


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    shown = ast.unparse(argument)
    return shown if default is None else f"{shown} = {ast.unparse(default)}"


# data.md


def data_dictionary() -> str:
    """The page of the tables that come with the package, with the meaning of every column."""
    from assignadd.sweeps.data_dictionary import columns_of
    from assignadd.sweeps.shipped_tables import TABLES

    parts = [
        "# Data dictionary\n", NOTE,
        "These tables come with the package. `assignadd results` lists them, `assignadd results NAME` explains the "
        "columns of one, `assignadd results NAME --csv` writes it to NAME.csv, and `assignadd.table(NAME)` is a polars "
        "data frame. [Use the population tables](population.md) has examples.\n",
        "| table | rows | a row is | what it is |", "|---|---|---|---|",
        *(f"| [{t.name}](#{t.name}) | {t.frame().height:,} | {t.row} | {t.about} |" for t in TABLES.values()), "",
    ]  # fmt: skip
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, table in TABLES.items():
        rows = [f"| `{cell(c.name)}` | {cell(c.meaning)} | {c.sample} |" for c in columns_of(table)]
        groups.setdefault(tuple(rows), []).append(name)
    for shown, names in groups.items():
        for name in names:
            command, commit = TABLES[name].made_by
            parts += [f"## {name}\n", f"{TABLES[name].about[0].upper()}{TABLES[name].about[1:]}.\n"]
            parts.append(f"Made at commit {commit[:7]}" + (f" by `{command}`.\n" if command else ".\n"))
        shared = f"The columns of {', '.join(names)}:\n" if len(names) > 1 else "Columns:\n"
        parts += [shared, "| column | meaning | counted on |", "|---|---|---|", *shown, ""]
    return "\n".join([*parts, *_measures()])


def _measures() -> Iterator[str]:
    """The columns of the table that `assignadd measure` writes for a run."""
    from assignadd.measures.columns import COLUMNS

    yield "## Measures of your own runs\n"
    yield (
        "`assignadd measure RUN` writes RUN/measures.parquet (`assignadd.measure(RUN)` in Python), a row per model and "
        "checkpoint. Beside `model` (its index in the run), `seed` and `step` it has these columns; `{n_vars}` stands "
        "for 0, 1 or 2, `{variable}` for a letter, and so on. *Level* is the value at which what is measured counts as "
        "present.\n"
    )
    yield "| column | meaning | unit | level | sequences |"
    yield "|---|---|---|---|---|"
    for m in COLUMNS:
        level = "" if m.level is None else f"{m.level:g}"
        yield f"| `{m.name}` | {cell(m.label)} | {m.unit} | {level} | {m.n or ''} |"
    yield ""


if __name__ == "__main__":
    for page, text in pages().items():
        (DOCS / page).write_text(text)
