"""The names of `assignadd.study`: cells times seeds, questions, tables and figures."""

import dataclasses
import subprocess
import sys
import tempfile
from pathlib import Path

from assignadd import PRESETS
from assignadd.ledger import AtLeast, Measured
from assignadd.study import (
    BASE,
    PAPER,
    Cell,
    Computed,
    Study,
    StudyTable,
    final_column,
    grid,
    mean,
    share,
)

# Real studies start from BASE, the paper's settings, and leave the record unchanged; this one trains in seconds.
record = dataclasses.replace(BASE.record, eval_every=100, checkpoint_every=200, final_sequences=200)
small = dataclasses.replace(PRESETS["smoke"], record=record)
EARLY, AT_END = "0-var train at 100", final_column("0-var train")


def later_gain(table: StudyTable) -> Measured | None:
    """How much accuracy on literals comes after step 100, in the first cell."""
    gains = table.values(PAPER, AT_END) - table.values(PAPER, EARLY)
    return Measured.mean(gains.mean(), gains.std(), len(gains), "networks") if len(gains) > 1 else None


STUDY = Study(
    "small-rates",
    "Do more seeds learn to add at twice the rate?",
    cells=(Cell(PAPER), Cell("twice the rate", {"optim.lr": 2 * small.optim.lr}), *grid(small, n_heads=[2])),
    seeds=2,
    steps=200,
    base=small,
    early=("0-var train",),
    early_steps=(100,),
    ask=(
        share("adds").of("twice the rate").versus(PAPER, at_least=0),
        mean(AT_END).at_least(0.1),
        Computed("gain", "Literals are learned after step 100 too.", later_gain, AtLeast(0)),
    ),
)

if __name__ == "__main__":
    out = Path(tempfile.mkdtemp()) / "study"
    subprocess.run([sys.executable, "-m", "assignadd", "study", __file__, "-o", out], check=True)
