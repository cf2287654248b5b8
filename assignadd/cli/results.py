"""assignadd results"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from assignadd.cli import options
from assignadd.cli.screen import print_json, print_table, say
from assignadd.config.errors import UsageError

if TYPE_CHECKING:
    from assignadd.sweeps.shipped_tables import ShippedTable

OWN_NAME, STANDARD_OUTPUT = "", "-"


@dataclass(frozen=True)
class Results:
    """The tables that come with the package: all of them, the columns of one explained, or one as a CSV file."""

    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NAME]")] = None
    """A table, such as census; without one, all tables are listed."""
    csv: str | None = None
    """Write the table to this file; without a value to NAME.csv, and for - to standard output."""
    json: bool = False
    """Print {"tables": [...]}, or {"name", "row", "about", "columns": [{"name", "meaning", "sample"}], ...}."""


def main(arguments: list[str]) -> None:
    args = options.read(Results, _with_value("--csv", arguments), "results")
    if args.csv is not None and args.name is None:
        raise UsageError("--csv needs the name of a table: assignadd results NAME --csv [FILE]")
    if args.csv is not None and args.json:
        raise UsageError("--csv and --json exclude each other")
    from assignadd.sweeps.shipped_tables import TABLES, shipped_table

    if args.name is None:
        return _list(list(TABLES.values()), args.json)
    table = shipped_table(args.name)
    return _explain(table, args.json) if args.csv is None else _write(table, args.csv)


def _with_value(flag: str, arguments: Sequence[str]) -> list[str]:
    """The arguments with an empty value for a flag that has none: at the end, or before another flag."""
    following = [*arguments[1:], "--"]
    return [f"{word}={OWN_NAME}" if word == flag and after[:2] == "--" else word
            for word, after in zip(arguments, following, strict=False)]  # fmt: skip


def _list(tables: Sequence[ShippedTable], as_json: bool) -> None:
    if as_json:
        return print_json({"tables": [_facts(table) for table in tables]})
    rows = [(table.name, f"{table.frame().height:,}", table.about) for table in tables]
    caption = "`assignadd results NAME` explains the columns, `assignadd results NAME --csv` writes a file"
    print_table("tables that come with the package", ("table", "rows", "what it is"), rows, caption)


def _explain(table: ShippedTable, as_json: bool) -> None:
    from assignadd.sweeps.results import columns_of

    columns = columns_of(table)
    if as_json:
        return print_json(_facts(table) | {"columns": [asdict(column) for column in columns]})
    command, commit = table.made_by
    caption = f"a row is {table.row}; made at commit {commit[:7]}" + (f" by `{command}`" if command else "")
    rows = [(column.name, column.meaning, column.sample) for column in columns]
    print_table(f"{table.name}: {table.about}", ("column", "meaning", "counted on"), rows, caption)


def _write(table: ShippedTable, file: str) -> None:
    text = table.frame().write_csv()
    if file == STANDARD_OUTPUT:
        print(text, end="")
        return
    from assignadd.runs import atomic
    from assignadd.runs.files import claim_file

    path = Path(f"{table.name}.csv" if file == OWN_NAME else file)
    claim_file(path, lambda data: data.startswith(text.partition("\n")[0].encode()))
    atomic.write(path, text.encode())
    say(f"{path}: {text.count(chr(10)) - 1:,} rows; `assignadd results {table.name}` explains the columns")


def _facts(table: ShippedTable) -> dict[str, object]:
    made_by = dict(zip(("command", "commit"), table.made_by, strict=True))
    return {"name": table.name, "about": table.about, "row": table.row, "rows": table.frame().height} | made_by
