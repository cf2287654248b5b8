"""Writes the pages of the docs that are generated from the code.

`make reference` writes reference.md, which is committed; a test compares it with what `reference` returns. `make site`
also writes the pages that only the site has (`--site`): commands.md, data.md and studies.md. Signatures, defaults and
docstrings are read from the source text.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assignadd.cli.arguments import Argument
    from assignadd.cli.screen import Table

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PACKAGE = ROOT / "assignadd"
NOTE = "<!-- Written by docs/generate.py; edit the docstrings and run `make reference`. -->\n"
# The packages with public names (`__all__`), in the order of the reference; the first is `assignadd` itself.
PUBLIC = ("", "task", "model", "measures", "dynamics", "interventions", "sweeps", "study", "ledger", "figure")
# What public constants are: they have no docstring.
CONSTANTS = {
    "ADDITION": "What a network that adds must reach: 90 % of the literals whose pair was held out.",
    "BASE": "The settings of a study's networks unless it says otherwise: the preset `paper`, an evaluation every 250 "
    "steps and a large one at the end.",
    "BINDING": "What a network that binds must reach: 95 % of the sums with one variable, as trained.",
    "COLORS": "The colours of the figures: `.blue`, `.vermilion`, `.green`, `.orange`; `.ink` and `.grey` for lines.",
    "EVAL_SETS": "The nine evaluation sets of the paper.",
    "PAPER": "The label of the cell with the paper's settings.",
    "PRESETS": "Configurations by name: `paper`, `authors`, `tiny`, `smoke`.",
}


def site_pages() -> dict[str, str]:
    """The text of each page that only the site has, by its file name."""
    return {"commands.md": commands(), "data.md": data_dictionary(), "studies.md": studies()}


@cache
def tree_of(module: str) -> ast.Module:
    path = PACKAGE / module.replace(".", "/")
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())


Definition = ast.ClassDef | ast.FunctionDef


def find(module: str, name: str) -> tuple[str, Definition | None]:
    """The module in which a name is defined, and its class or function; None for a constant."""
    for node in ast.walk(tree_of(module)):
        if isinstance(node, Definition) and node.name == name and node in tree_of(module).body:
            return module, node
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            if name == (alias.asname or alias.name) and str(node.module).startswith("assignadd"):  # type: ignore[attr-defined]
                return find(str(node.module).partition(".")[2], alias.name)  # type: ignore[attr-defined]
    return module, None


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


# reference.md


def reference() -> str:
    """The page of the public names: for each package a table with a sentence each, and a script that uses them."""
    parts = [
        "# Python reference\n", NOTE,
        "These names are public: they keep their meaning from version to version. Findings, notebooks, examples and "
        "these pages use no others, and neither need you. Classes are listed with their fields and methods; the link "
        "leads to the source, whose docstrings say more, as `help(NAME)` does. Letters of shapes are in the "
        "[glossary](names.md#sizes). Each section ends in a script that runs as it is, in seconds "
        "(`python docs/reference/task.py`).\n",
    ]  # fmt: skip
    for package in PUBLIC:
        title = f"assignadd.{package}" if package else "assignadd"
        about = (ast.get_docstring(tree_of(package)) or "").split("\n\n")[0]
        parts += [f"## {title}\n", about + "\n", "| name | what it is |", "|---|---|"]
        parts += [_row(package, name) for name in public_names(package)]
        parts += ["", f"```python\n{example(package)}```\n"]
    return "\n".join(parts)


def public_names(package: str) -> list[str]:
    """The names in `__all__` of a package: read from the list, or from what `lazily` is given."""
    for node in tree_of(package).body:
        if isinstance(node, ast.Assign) and "__all__" in ast.unparse(node.targets[0]):
            if isinstance(node.value, ast.Call):
                homes = ast.literal_eval(node.value.args[1])
                return sorted((name for names in homes.values() for name in names), key=_order)
            return sorted(ast.literal_eval(node.value), key=_order)
    raise LookupError(f"docs/generate.py: no __all__ in assignadd.{package}")


def _order(name: str) -> tuple[int, str]:
    """Functions first, then classes, then constants."""
    return (2 if name.isupper() and len(name) > 2 else 1 if name[0].isupper() and len(name) > 2 else 0, name.lower())


def script(package: str) -> Path:
    """The script that shows how the names of a package are used."""
    return DOCS / "reference" / f"{package or 'api'}.py"


def example(package: str) -> str:
    """The script without its docstring."""
    text = script(package).read_text()
    end = ast.parse(text).body[0].end_lineno
    return "\n".join(text.splitlines()[end:]).strip() + "\n"


def _row(package: str, name: str) -> str:
    module, node = find(package, name)
    path = PACKAGE / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    link = f"[`{name}`](../{file.relative_to(ROOT)})"
    if node is None:
        return f"| {link} | {cell(CONSTANTS[name])} |"
    if not (text := ast.get_docstring(node)):
        raise LookupError(f"docs/generate.py: {name} in assignadd.{module} has no docstring")
    shown = f"{link}`({', '.join(_arguments(node))})`"
    return f"| {shown} | {cell(first_sentence(text))}{cell(_methods(node))} |"


def first_sentence(text: str) -> str:
    """The first line of a docstring, with those after it if the sentence goes on there."""
    lines = text.split("\n\n")[0].splitlines()
    end = next((i for i, line in enumerate(lines) if line.endswith((".", ":", ";"))), len(lines) - 1)
    return " ".join(lines[: end + 1]).rstrip(":;")


def _arguments(node: Definition) -> Iterator[str]:
    """The arguments of a function, or what a class is made with; optional ones have an equals sign."""
    if isinstance(node, ast.ClassDef):
        made = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
        if made is None:
            yield from (f"{name}=" if default else name for name, _, default, _ in fields(node))
            return
        node = made
    of = node.args
    n_required = len(of.args) - len(of.defaults)
    for i, argument in enumerate(of.args):
        if argument.arg not in ("self", "cls"):
            yield argument.arg if i < n_required else f"{argument.arg}="
    if of.vararg:
        yield f"*{of.vararg.arg}"
    for argument, default in zip(of.kwonlyargs, of.kw_defaults, strict=True):
        yield argument.arg if default is None else f"{argument.arg}="


def _methods(node: Definition) -> str:
    """The documented methods and properties of a class."""
    if isinstance(node, ast.FunctionDef):
        return ""
    methods = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name[0] != "_" and ast.get_docstring(n)]
    properties = {"property", "cached_property"}
    shown = [
        f"`.{n.name}`" if {ast.unparse(mark) for mark in n.decorator_list} & properties else f"`.{n.name}()`"
        for n in methods
    ]
    return f" Has {', '.join(shown)}." if shown else ""


# commands.md


def commands() -> str:
    """The page of all commands with their options, from the dataclasses that the command line is read into."""
    from assignadd.cli import COMMANDS, command_class
    from assignadd.cli.arguments import arguments_of

    parts = [
        "# Commands\n", NOTE,
        "Every command with its arguments and options; `assignadd COMMAND --help` prints the same. RUN is a run "
        "folder, its name under `runs/`, or a run that comes with the package (`census-six`, `census-two`, "
        "`small-trajectory`). Exit codes: 0 done, 1 failed or not there, 2 bad input, 143 and 130 stopped by SIGTERM "
        "and Ctrl-C after saving.\n",
    ]  # fmt: skip
    shown = set()
    for name in COMMANDS:
        kind = command_class(name)
        if kind not in shown:
            known = list(arguments_of(kind, with_help=True))
            parts += [f"## assignadd {name}\n", f"{inspect.getdoc(kind)}\n", _option_table(known, name)]
            shown.add(kind)
    return "\n".join(parts)


def _option_table(known: Sequence[Argument], command: str) -> str:
    """The options of a command; the settings of a configuration, which only `train` lists, have a table a section."""
    sections: dict[str, list[str]] = {"": []}
    for argument in known:
        section = argument.name.rpartition(".")[0]
        rows = sections.setdefault(section, [])
        if section and command != "train":
            rows[:] = [
                f"| `--{section}.*` | the preset's | Any setting of the {section}, as of [train](#assignadd-train). |"
            ]
            continue
        name = argument.synopsis if argument.positional else ", ".join(argument.flags)
        default = "required" if argument.required else _default(argument.default)
        rows.append(f"| `{name}` | {default} | {cell(argument.help)} |")
    head = ["| argument | default | meaning |", "|---|---|---|"]
    title = ["Settings, which replace those of the preset:", ""] if command == "train" else []
    tables = [[*head, *rows, ""] for rows in sections.values()]
    return "\n".join([*map("\n".join, tables[:1]), *title, *map("\n".join, tables[1:])])


def _default(value: object) -> str:
    """A default as people type it."""
    text = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return "" if value in (None, (), "") else "off" if value is False else "on" if value is True else f"`{text}`"


# studies.md


def studies() -> str:
    """The page of all studies of the findings: the cells and the statements of each (`assignadd study PATH --show`)."""
    from assignadd.cli.study import cells_table, statements_table
    from assignadd.study.files import read_study, studies_in, table_file

    parts = [
        "# Tables of the studies\n", NOTE.replace("the docstrings and run `make reference`", "findings/*/study.py"),
        "What came out of every study of the [findings](../findings/README.md), cell by cell, and the statements that "
        "were judged by it, with 95 % intervals. [How findings are made](../findings/METHODS.md) has the words.\n",
    ]  # fmt: skip
    for file in sorted(ROOT.glob("findings/*/study.py")):
        folder = file.parent
        stated = studies_in(folder)
        tables = [read_study(study, folder) for study in stated.values() if table_file(study, folder).exists()]
        if tables:
            title = (folder / "README.md").read_text().partition("\n")[0].removeprefix("# ")
            parts.append(f"## {title}\n\n[The finding](../findings/{folder.name}/README.md); "
                         f"`assignadd study findings/{folder.name} --show` prints this.\n")  # fmt: skip
        for table in tables:
            study = table.study
            meanings = [
                f"*{name}*: {study.column_meanings.get(name, name)}" for name in (*study.outcomes, *study.numbers)
            ]
            about = f"{study.question} {'; '.join(meanings)}."
            parts += [f"### {study.name}\n", f"{about}\n", _markdown(cells_table(table))]
            parts += [_markdown(statements_table(table))] if study.ask else []
    return "\n".join(parts)


def _markdown(table: Table) -> str:
    """A table of a command as Markdown, with the columns that people read."""
    places = [i for i, column in enumerate(table.columns) if column.only in ("", "people")]
    shown = [[table.columns[i].heading for i in places], ["---"] * len(places)]
    shown += [[cell(table.columns[i].text(row[i])) for i in places] for row in table.rows]
    return "\n".join([*(f"| {' | '.join(row)} |" for row in shown), ""])


# data.md


def data_dictionary() -> str:
    """The page of the tables that come with the package, with the meaning of every column."""
    from assignadd.sweeps.results import TABLES, columns_of

    parts = [
        "# Data dictionary\n", NOTE,
        "What every column means of the tables that come with the package. `assignadd runs tables` lists them, "
        "`assignadd runs tables NAME` explains the columns of one, `assignadd runs tables NAME --csv` prints it, and "
        "`assignadd.table(NAME)` is a polars data frame. [Use the population tables](population.md) has examples.\n",
        "| table | rows | what it is |", "|---|---|---|",
        *(f"| [{t.name}](#{t.name}) | {t.frame().height:,} | {t.about} |" for t in TABLES.values()), "",
    ]  # fmt: skip
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, table in TABLES.items():
        rows = [f"| `{cell(c.name)}` | {cell(c.meaning)} | {c.sample} |" for c in columns_of(table)]
        groups.setdefault(tuple(rows), []).append(name)
    for shown, names in groups.items():
        for name in names:
            command, commit = TABLES[name].made_by
            parts += [f"## {name}\n", f"{TABLES[name].about[0].upper()}{TABLES[name].about[1:]}.\n"]
            parts.append(f"A row is one model at one evaluation; made at commit {commit[:7]} by `{command}`.\n")
        shared = f"The columns of {', '.join(names)}:\n" if len(names) > 1 else "Columns:\n"
        parts += [shared, "| column | meaning | counted on |", "|---|---|---|", *shown, ""]
    return "\n".join([*parts, *_measures()])


def _measures() -> Iterator[str]:
    """The columns of the table that `assignadd measure curves` writes for a run."""
    from assignadd.measures.columns import MEASURES

    yield "## Measures of your own runs\n"
    yield (
        "`assignadd measure curves RUN` writes RUN/measures.parquet (`assignadd.measure(RUN)` in Python), a row per "
        "model and checkpoint. Beside `model` (its index in the run), `seed` and `step` it has these columns; "
        "`{n_vars}` stands for 0, 1 or 2, `{variable}` for a letter, and so on. *Threshold* is the value from which "
        "on what is measured counts as present.\n"
    )
    yield "| column | meaning | unit | threshold | sequences |"
    yield "|---|---|---|---|---|"
    for m in MEASURES:
        threshold = "" if m.threshold is None else f"{m.threshold:g}"
        yield f"| `{m.name}` | {cell(m.label)} | {m.unit} | {threshold} | {m.n or ''} |"
    yield ""


if __name__ == "__main__":
    pages = {"reference.md": reference()} | (site_pages() if "--site" in sys.argv[1:] else {})
    for page, text in pages.items():
        (DOCS / page).write_text(text)
