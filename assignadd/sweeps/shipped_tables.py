"""The tables that come with the package (`assignadd/results`): what each is for, and each as a flat data frame."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from assignadd.config.errors import ConfigError, one_of

if TYPE_CHECKING:
    import polars

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class ShippedTable:
    """A table of `assignadd/results`: NAME.parquet beside NAME.json, or NAME.json alone."""

    name: str
    row: str
    """What one row stands for."""
    about: str
    """What the table holds and what it is for."""
    rows: Callable[[Mapping[str, Any]], Rows] | None = None
    """The rows of a table that is a JSON file; None for a Parquet file."""
    meanings: Mapping[str, str] = field(default_factory=dict)
    """The meaning of each column of a table that is a JSON file; `data_dictionary` has those of sweeps and studies."""

    @property
    def document(self) -> dict[str, Any]:
        """The JSON file: how the table was made and, if there is no Parquet file, its contents."""
        return json.loads((files("assignadd") / "results" / f"{self.name}.json").read_text())

    @property
    def made_by(self) -> tuple[str, str]:
        """The command that made the table, or "" if the file does not have it, and the commit."""
        document = self.document
        environment = document.get("made_with", document)
        return document.get("command", ""), (environment if isinstance(environment, dict) else environment[0])["commit"]

    def frame(self) -> polars.DataFrame:
        """The table."""
        import polars

        if self.rows is not None:
            return polars.DataFrame(self.rows(self.document), infer_schema_length=None)
        with (files("assignadd") / "results" / f"{self.name}.parquet").open("rb") as file:
            return polars.read_parquet(file)


def shipped_table(name: str) -> ShippedTable:
    """The record of a table, by its name."""
    if name not in TABLES:
        raise ConfigError("table", name, one_of(name, TABLES))
    return TABLES[name]


def _lines(document: Mapping[str, Any]) -> Rows:
    """A row for each claim, and one for each further reading of it."""
    rows: Rows = []
    for record in document["records"]:
        claim = {"id": record["id"], "label": record["label"], "claim": record["claim"], "paper": record["paper"]}
        rows.append(claim | _numbers(record) | {"checkpoints": record["checkpoints"]})
        for line in record["readings"]:
            says = {"id": f"{record['id']}:{line['id']}", "label": record["label"], "claim": line["says"]}
            rows.append(says | {"paper": None} | _numbers(line) | {"checkpoints": None})
    return rows


def _numbers(line: Mapping[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in ("value", "low", "high", "n", "unit", "verdict")}


_MODEL_AND_EVALUATION = "one model at one evaluation"
TABLES: dict[str, ShippedTable] = {
    table.name: table
    for table in (
        ShippedTable(
            "census", _MODEL_AND_EVALUATION,
            "seeds 0 to 127 of preset `paper`, 50,000 steps, a row every 250: which seeds bind, and when",
        ),
        ShippedTable(
            "authors", _MODEL_AND_EVALUATION,
            "seeds 128 to 159 of preset `authors` (the same task but for the names of the variables and a mirror), "
            "50,000 steps, a row every 250: one population with the census",
        ),
        ShippedTable(
            "fraction", _MODEL_AND_EVALUATION,
            "16 values of f (`seen_fraction`) with 24 seeds each, 30,000 steps, a row every 1,000: how many pairs "
            "addition needs (the paper's figure generalization_combined, b)",
        ),
        ShippedTable(
            "two-var", _MODEL_AND_EVALUATION,
            "19 values of r (`two_var_ratio`) with 24 seeds each, 30,000 steps, a row every 1,000: how many "
            "two-variable sequences it needs (generalization_combined, a)",
        ),
        ShippedTable(
            "tf32", _MODEL_AND_EVALUATION,
            "seeds 0 to 31 of preset `paper` trained with TF32, 30,000 steps, a row every 250: whether conclusions "
            "depend on TF32 (compare with seeds 0 to 31 of the census)",
        ),
        ShippedTable(
            "paper-network", "one claim, or one further reading of it",
            "the ledger of the paper's own network: all 401 of its public checkpoints, imported",
            _lines,
            {
                "id": "the claim (`assignadd claims RUN --only ID` prints its sentence and rule), or CLAIM:READING",
                "label": "the figure or section of the paper",
                "claim": "what is claimed",
                "paper": "what the paper reports; null for a reading",
                "value": "what was measured",
                "low": "lower end of the 95 % interval; the value itself where nothing is sampled",
                "high": "upper end of the 95 % interval; the value itself where nothing is sampled",
                "n": "how many units the value was counted on; 0 where it is not counted",
                "unit": "the units, such as sequences, pairs or checkpoints",
                "verdict": "`holds`, `does not hold` or `undecided` (the interval contains the threshold)",
                "checkpoints": "the checkpoints that the claim was measured at, with their number from three on; "
                "empty for the theory, null for a reading",
            },
        ),
    )
}  # fmt: skip
