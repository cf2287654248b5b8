"""The names of `assignadd.figure`: the style and the colours of all figures, intervals, and maps of shares."""

import tempfile
from pathlib import Path

import numpy as np

import assignadd
from assignadd.figure import COLORS, bar, draw_interval, figure, save, share_map
from assignadd.ledger import Measured

census = assignadd.table("census").filter(assignadd.table("census")["seed"] < 4)
with figure(5.5, 2.4) as made:
    left, middle, right = made.subplots(1, 3)
    colors = (COLORS.blue, COLORS.vermilion, COLORS.green, COLORS.orange)
    for color, (_, curve) in zip(colors, census.group_by("seed"), strict=True):
        left.plot(curve["step"], curve["1-var train"], color=color)
    left.axhline(0.95, color=COLORS.grey, linestyle="--")
    left.set_title("four seeds of the census", color=COLORS.ink)
    draw_interval(middle, Measured.share(131, 160, "seeds"), at=0, color=COLORS.blue)
    shares = np.array([[0.1, 0.5], [0.7, 1.0]])
    bar(share_map(right, shares, [f"{share:.1f}" for share in shares.flat]), right, "share")
    save(made, Path(tempfile.mkdtemp()) / "four-seeds")  # four-seeds.svg and four-seeds.png
print("drawn")
