"""The page docs/studies.md: every study with its question, method, rules and, where its table is there, its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assignadd.claims.record import Record
from assignadd.claims.statements import study_records
from assignadd.figures.studies import study_caption, study_data
from assignadd.studies.registry import STUDIES
from assignadd.studies.study import ComputedHypothesis, Hypothesis, Study
from assignadd.studies.table import LABELS, ONSETS, Estimate, StudyTable, shipped_study

INTRODUCTION = """\
# Studies

Each study trains many networks whose task or architecture differs from the paper's, and asks what becomes of them.
`assignadd study` lists them, `assignadd study NAME --dry-run` says what one costs, `assignadd study NAME --device
cuda --tf32` runs it (again after an interruption: it goes on), and `assignadd study NAME --show` shows the table that
comes with the package. The cells, the outcomes and the rules of a study stand in one file
of `assignadd/studies`. The rules of architecture, size and hops are those of the commit that trained their
networks; those of operations and operands were changed between the start of training and the first look at a value
(docs/findings.md says how). This page is written by `assignadd study --markdown` from the tables in
`assignadd/results`; no number in it is typed by hand.

A network *binds* if it answers at least 95 % of the one-variable sequences of its training law in the final
evaluation (20,000 sequences a set): these have seen tuples of numbers, so a network that binds may still not
generalise. It *answers held-out tuples* if it answers at least 90 % of held-out tuples of literals, and *uses banned
slots* if it answers at least 95 % of every set with a variable in a slot where training never had it. The *step of
binding* is the first evaluation from which it answers at least 95 % of all training sets with variables until the end
or for 1,000 steps; the evaluations on the way have 512 sequences a set, and some networks that bind have no such step.
A statement *holds* or *does not hold* if its whole 95 % interval is on one side of the rule (Wilson for shares,
Student's t for means, Newcombe for differences), and is *undecided* otherwise.
"""
NOT_RUN = "Not run yet: no table of this study comes with the package."


def studies_page() -> str:
    """The page in Markdown."""
    return "\n".join([INTRODUCTION, *(_section(study, shipped_study(study)) for study in STUDIES.values())])


def _section(study: Study, table: StudyTable | None) -> str:
    models = study.n_models if table is None else table.frame.height
    steps = study.base.optim.steps if table is None else table.provenance["steps"]
    plan = f"{len(study.cells)} cells, {models} networks in all, {steps:,} steps each."
    parts = [f"## {study.title}", study.question, f"{study.method} {plan}"]
    if table is None:
        rules = [(h.claim, h.rule) for h in study.hypotheses]
        parts += [NOT_RUN, _table(("statement", "holds if the number is"), rules)]
    else:
        parts += [
            study_caption(study_data(table)),
            _table(*study_cells(table)),
            _statements(study.hypotheses, study_records(table)),
        ]
        parts.append(f"Made by `{table.provenance['command']}` on {_machines(table)}.")
    return "\n\n".join(parts) + "\n"


def study_cells(table: StudyTable) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    """Columns and rows of a table with a row per cell: its networks, and the study's outcomes and numbers."""
    names = [*table.study.outcomes, *table.study.numbers]
    rows = [
        (row["cell"], row["models"], row["diverged"], *(estimate_text(row[n], n in ONSETS) for n in names))
        for row in table.summary()
    ]
    return ("cell", "networks", "diverged", *(LABELS.get(name, name) for name in names)), rows


def _statements(hypotheses: Sequence[Hypothesis | ComputedHypothesis], records: Sequence[Record]) -> str:
    rows = [
        (h.claim, estimate_text(r), str(h.rule), f"**{r.verdict}**") for h, r in zip(hypotheses, records, strict=True)
    ]
    return _table(("statement", "number", "holds if it is", "verdict"), rows)


def _machines(table: StudyTable) -> str:
    made = table.provenance["made_with"]
    return " and ".join(f"{m['device']}, torch {m['torch']}, commit {(m['commit'] or 'unknown')[:7]}" for m in made)


def estimate_text(found: Estimate | Record | None, whole: bool = False) -> str:
    """A number with its 95 % interval, in whole numbers where asked; a dash where there is none."""
    if found is None or found.value is None:
        return "-"
    form = ",.0f" if whole else ".3g"
    ends = "" if found.low is None else f" [{found.low:{form}}, {found.high:{form}}]"
    return f"{found.value:{form}}{ends}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
