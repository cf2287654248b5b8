"""The tables that come with the package (`assignadd/results`): what each is for, and each as a flat data frame."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from assignadd.errors import ConfigError

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
        raise ConfigError("table", name, "one of " + ", ".join(TABLES))
    return TABLES[name]


def _points(document: Mapping[str, Any]) -> Rows:
    return [*document["points"]]


def _lines(document: Mapping[str, Any]) -> Rows:
    """A row for each claim, and one for each further reading of it."""
    rows: Rows = []
    for record in document["records"]:
        own = {"id": record["id"], "label": record["label"], "claim": record["claim"], "paper": record["paper"]}
        rows.append(own | _numbers(record) | {"checkpoints": record["checkpoints"]})
        for line in record["readings"]:
            says = {"id": f"{record['id']}:{line['id']}", "label": record["label"], "claim": line["says"]}
            rows.append(says | {"paper": None} | _numbers(line) | {"checkpoints": None})
    return rows


def _numbers(line: Mapping[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in ("value", "low", "high", "n", "unit", "verdict")}


def _changes(document: Mapping[str, Any]) -> Rows:
    """A row for each model, evaluation set and change of the attention weights."""
    rows: Rows = []
    for model in document["models"]:
        for name, found in model["sets"].items():
            facts = {"run": model["run"], "seed": model["seed"], "step": model["step"], "set": name}
            weights = {f"weight {kind}": weight for kind, weight in found["weights"].items()}
            for change in ("unchanged", *found["lost"]):
                lost, low, high = found["lost"].get(change, (0.0, None, None))
                top = {"operands on top": found["operands on top"].get(change)}
                numbers = {"accuracy": found["accuracy"], "change": change, "lost": lost, "low": low, "high": high}
                rows.append(facts | numbers | top | weights)
    return rows


_MODEL_AND_EVALUATION = "one model at one evaluation"
_SCALING = {
    "setting": "what differs from the paper's settings: N, V, T, d (width of the residual stream; the MLP is 4 d "
    "wide), batch, or M (models in the stack)",
    "value": "the value of that setting",
    "models": "models that train at once",
    "gflop": "GFLOP of matrix products of one training step of one model",
    "us": "microseconds of one training step, divided by the number of models",
    "tflops": "TFLOP/s: gflop / us, in 10^12 operations a second",
}
_KEYS = {
    "variable": "the slots of operands that are variables",
    "literal": "the slots of operands that are literals",
    "equals": "`=` itself",
    "plus": "`+`",
    "prefix": "all positions before `+`",
}
# What the networks of each study are; docs/studies.md has the results.
STUDIES = {
    "operations": "five operations, four values of f each, 32 seeds a cell, 15,000 steps",
    "operands": "one, two and three operands, 32 seeds a cell, 15,000 steps",
    "architecture": "nine architectures on the paper's task, 16 seeds a cell, 15,000 steps",
    "size": "eight sizes of the task (N, V, T), 16 seeds a cell, 15,000 steps",
    "hops": "chains of 0 to 2 links with 2 to 4 layers, 16 seeds a cell, 15,000 steps",
    "rate": "nine learning rates, 32 seeds a cell, 15,000 steps",
    "when": "the learning rate raised or lowered at one step of training, 32 seeds a cell, 24,000 steps",
    "training": "decay, warm-up, batch, mix or initial scale changed, 32 seeds a cell, 15,000 steps",
    "parts": "one part of the network frozen at first, 32 seeds a cell, 15,000 steps",
    "scale": "nine scales of the initial weights, 32 seeds a cell, 15,000 steps",
    "order": "literal sums withheld at first, or one part frozen later, 32 seeds a cell, 15,000 steps",
    "window": "one part frozen from step 2,000 until 8,000, or until 2,000, 32 fresh seeds a cell, 15,000 steps",
    "transplant": "one part of a network that binds given to others at the start, and to stuck networks, 15,000 steps",
    "plateau": "one part of stuck networks frozen, reset or replaced, 18 networks a cell, 15,000 steps",
    "reset": "one part of trained networks, stuck or not, set to initial weights, 32 a cell, 15,000 steps more",
    "again": "larger initial weights, or one part frozen at first, 48 fresh seeds a cell, 15,000 steps, float32",
    "fate": "8 initialisations x 8 data orders x 8 splits, and 8 of these combinations 8 times more with other "
    "rounding, 30,000 steps",
    "cure": "a high learning rate first, and the paper's settings, 128 fresh seeds each, 30,000 steps",
    "data": "seven values of f times seven of r, 16 seeds a cell, 12,000 steps",
    "doubles": "five ways to choose or draw the doubles in training, 32 seeds a cell, 15,000 steps",
    "small-weights": "smaller initial weights, more decay, or both, 32 seeds a cell, 15,000 steps",
    "longer": "smaller initial weights with and without more decay, 32 seeds a cell, 40,000 steps",
    "doubles-causes": "MLP2 without a linear part, or of another width, 32 fresh seeds a cell, 15,000 steps",
    "mlp-width": "16 to 512 neurons in MLP2, 32 fresh seeds a cell, 30,000 steps",
    "spikes": "float32, float32 with the loss in float64, and float64, 16 seeds a cell, 15,000 steps",
    "bursts": "seven settings of the optimizer, 16 fresh seeds a cell, 15,000 steps, float32",
    "sudden": "QK2 or W_E frozen, an evaluation every 25 steps, 32 fresh seeds a cell, 12,000 steps, float32",
    "cues": "sequences with contradicting cues, 6 or at most 3 assignments in training, 64 fresh seeds a cell, 20,000 "
    "steps",
}
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
        *(ShippedTable(f"study-{name}", "one model", f"{what} (docs/studies.md)") for name, what in STUDIES.items()),
        ShippedTable(
            "operand-attention", "one model on one evaluation set under one change of layer 1's attention",
            "`assignadd operands` on 22 seeds of the census that bind, 4,000 sequences of each set: the 12 in which "
            "the operand slots are often not the top two keys of `=` in layer 1, and 10 others",
            _changes,
            {
                "run": "`twelve`: the 12 seeds; `ordinary`: the 10 others",
                "seed": "the seed of the model in the census",
                "step": "updates made",
                "set": "the evaluation set",
                "accuracy": "accuracy on the set without a change",
                "change": "what was done to the attention weights of `=` in layer 1, without renormalising them; "
                "`layer 2 set to the values` instead puts half of layer 2's attention on each operand's value",
                "lost": "accuracy without the change minus accuracy with it",
                "low": "lower end of the 95 % interval of `lost`; null without a change",
                "high": "upper end of the 95 % interval of `lost`; null without a change",
                "operands on top": "share of sequences in which the operand slots have the two largest weights under "
                "the change; null if not measured",
                **{
                    f"weight {kind}": f"mean attention from `=` in layer 1, without a change, to {keys}"
                    for kind, keys in _KEYS.items()
                },
            },
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
        ShippedTable(
            "scaling-fp32", "one setting", "the time of a training step on an H200 in fp32 (docs/scale.md)",
            _points, _SCALING,
        ),
        ShippedTable(
            "scaling-tf32", "one setting", "the time of a training step on an H200 with TF32 (docs/scale.md)",
            _points, _SCALING,
        ),
    )
}  # fmt: skip
