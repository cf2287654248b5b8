"""The names of `assignadd.figure`: the style, the colours and the heat maps that all figures share."""

import tempfile
from pathlib import Path

import numpy as np

import assignadd
from assignadd.figure import (
    BLUE,
    DARK_FROM,
    GREEN,
    GREY,
    INK,
    ORANGE,
    SHARES,
    VERMILION,
    bar,
    draw_heat,
    figure,
    save,
    write_cells,
)

census = assignadd.table("census").filter(assignadd.table("census")["seed"] < 4)
with figure(5.5, 2.4) as made:
    left, right = made.subplots(1, 2)
    for color, (_, curve) in zip((BLUE, VERMILION, GREEN, ORANGE), census.group_by("seed"), strict=True):
        left.plot(curve["step"], curve["1-var train"], color=color)
    left.axhline(0.95, color=GREY, linestyle="--")
    left.set_title("four seeds of the census", color=INK)
    shares = np.array([[0.1, 0.5], [0.7, 1.0]])
    bar(draw_heat(right, shares, SHARES, (0.0, 1.0)), right, "share")
    write_cells(right, [f"{share:.1f}" for share in shares.flat], shares >= DARK_FROM)
    save(made, Path(tempfile.mkdtemp()) / "four-seeds")  # four-seeds.svg and four-seeds.png
print("drawn")
