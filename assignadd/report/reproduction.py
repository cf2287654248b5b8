"""The reproduction page: what was trained, what it learned, the figures, and where every number came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assignadd.dynamics import BINDING_SET, BINDING_THRESHOLD, learned_binding
from assignadd.figures.accuracies import accuracies_data, draw_accuracies
from assignadd.figures.style import figure, save
from assignadd.measures.accuracies import Accuracy, set_accuracies
from assignadd.report.page import Cell, Page
from assignadd.runs import atomic
from assignadd.runs.folder import Run
from assignadd.task.evalsets import ALL_SETS


@dataclass(frozen=True)
class SeedResult:
    """One trained model: its curve and its final accuracies."""

    run: Run
    seed: int
    rows: list[Mapping[str, Any]]
    final: Mapping[str, Accuracy]

    @property
    def learned(self) -> bool:
        return learned_binding(self.rows[-1])


def results(runs: Sequence[Run], n: int) -> list[SeedResult]:
    """Every model of every run, in the order of training."""
    out = []
    for run in runs:
        rows, stack = run.metrics(), run.at()[1]
        for i, final in enumerate(set_accuracies(stack, run.configs, run.seen, n)):
            out.append(SeedResult(run, run.members[i].seed, [row for row in rows if row["model"] == i], final))
    return out


def write_reproduction(found: Sequence[SeedResult], folder: Path, preset: str) -> Path:
    """Figures with their data under `folder`/figures, and `folder`/index.html that shows them."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    shown = sorted(found, key=lambda r: not r.learned)  # those that learned binding first, else in order
    page = Page("Assign and Add, reproduced")
    _summary(page, found, preset)
    page.heading("Accuracies during training")
    for i, result in enumerate(shown):
        label = ("accuracies", "accuracies2")[i] if i < 2 else f"accuracies-seed-{result.seed}"
        _accuracies(page, result, folder / "figures" / label)
    page.heading("Accuracy at the end")
    _final_table(page, found)
    page.heading("Provenance")
    _provenance(page, found, preset)
    index = folder / "index.html"
    atomic.write(index, page.html().encode())
    return index


def _summary(page: Page, found: Sequence[SeedResult], preset: str) -> None:
    learned = [r.seed for r in found if r.learned]
    page.text(
        "A two-layer, one-head transformer reads sequences such as `c=1, b=17, a=4, b+2=?` and learns to look variables up and to add "
        f"mod {found[0].run.config.task.modulus}. This page was made from {len(found)} models of the `{preset}` preset; "
        f"{len(learned)} of them learned to bind variables (at least {BINDING_THRESHOLD:.0%} on {BINDING_SET})."
    )
    if not learned:
        page.text("No seed learned binding, so the curves below stop at the first phase. That is a result, not an error.")
    elif len(learned) < len(found):
        page.text("The others have not learned it within their training. That is a result, not an error, and their curves are below too.")


def _accuracies(page: Page, result: SeedResult, stem: Path) -> None:
    data = accuracies_data(result.rows)
    np.savez(stem.with_suffix(".npz"), **data.arrays())  # type: ignore[arg-type]  # the stub takes arrays for a flag
    with figure() as made:
        axes = made.add_subplot()
        draw_accuracies(data, axes)
        axes.set_title(f"seed {result.seed}" + ("" if result.learned else ": binding not learned"))
        save(made, stem)
    page.figure(
        stem.with_suffix(".svg"),
        f"Nine accuracy curves of seed {result.seed} against the training step",
        f"`{stem.name}`, seed {result.seed}: colour is the number of variables in the sum, dashes mark sums held out from training, dots "
        f"variables in slots where training never put them. {result.rows[-1]['step']:,} steps; data in `figures/{stem.name}.npz`.",
    )


def _final_table(page: Page, found: Sequence[SeedResult]) -> None:
    sets = [s.name for s in ALL_SETS if any(s.name in r.final for r in found)]
    n = next(iter(found[0].final.values())).n
    rows: list[list[str | Cell]] = [[s, *[_with_interval(r.final.get(s)) for r in found]] for s in sets]
    page.table(("set", *[f"seed {r.seed}" for r in found]), rows)
    page.text(f"{n:,} fresh sequences a set; 95 % Wilson intervals in brackets.", soft=True)


def _with_interval(a: Accuracy | None) -> Cell:
    if a is None:  # a split without such a pair
        return Cell("none exists")
    tone = "good" if a.interval.low >= 0.95 else "bad" if a.interval.high < 0.9 else ""
    return Cell(f"{a.accuracy:.3f} [{a.interval.low:.3f}, {a.interval.high:.3f}]", tone)


def _provenance(page: Page, found: Sequence[SeedResult], preset: str) -> None:
    runs = list({r.run.name: r.run for r in found}.values())
    facts = [(name, run.provenance | {"wall_minutes": f"{run.wall_seconds / 60:.1f}"}) for name, run in ((r.name, r) for r in runs)]
    keys = [key for key in facts[0][1] if any(fact[key] not in ({}, None) for _, fact in facts)]
    page.table(("", *[name for name, _ in facts]), [[key.replace("_", " "), *[str(f.get(key)) for _, f in facts]] for key in keys])
    page.text(
        f"Made by `assignadd reproduce --preset {preset}`; the runs' own folders hold configuration, metrics and checkpoints.", soft=True
    )
