"""What a training step costs when one thing about the task, the network or the stack changes (docs/scale.md).

python -m benchmarks.scaling --device cuda [--tf32] > benchmarks/scaling-fp32.json
python -m benchmarks.scaling --draw                     docs/scale.png, from both files
"""

from __future__ import annotations

import json
import statistics
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from msgspec import to_builtins

from assignadd.config import PRESETS, Config
from assignadd.figure import COLORS, figure, save
from assignadd.runs.manifest import Environment
from assignadd.training.speed import cuda_microseconds, flops, one_model, seconds_of
from assignadd.training.trainer import prepare

HERE = Path(__file__).parent
# Models of a stack on a GPU, the values of one setting at a time, and numbers of models.
MODELS = 128
VALUES: dict[str, tuple[int, ...]] = {
    "N": (29, 59, 113, 199),
    "V": (8, 12, 20, 26),
    "T": (16, 20, 24, 32),
    "d": (64, 128, 256),
    "batch": (128, 256, 512, 1024, 2048),
}
STACKS = (1, 4, 16, 32, 64, 128, 256, 512)


def single_step_ms(config: Config, seconds: float) -> float:
    """One model on one thread, sampling included: the median of rounds."""
    prepare("cpu", 1, config)
    group, times = one_model(config), list[float]()
    while not times or sum(times) * group.steps_ahead < 1e3 * seconds:
        group.advance(3)
        times.append(1e3 * seconds_of(lambda: group.advance(group.steps_ahead)) / group.steps_ahead)
    return statistics.median(times)


def variants(config: Config) -> Iterator[tuple[str, int, Config]]:
    """The setting that differs, its value, and the configuration; the MLP stays four times as wide as the residual."""
    task, model, optim = config.task, config.model, config.optim
    for value in VALUES["N"]:
        yield "N", value, replace(config, task=replace(task, modulus=value))
    for value in VALUES["V"]:
        yield "V", value, replace(config, task=replace(task, n_vars=value))
    for value in VALUES["T"]:
        yield "T", value, replace(config, task=replace(task, length=value))
    for value in VALUES["d"]:
        yield "d", value, replace(config, model=replace(model, d_model=value, d_head=value, d_mlp=(None, 4 * value)))
    for value in VALUES["batch"]:
        yield "batch", value, replace(config, optim=replace(optim, batch=value))


def scaling(config: Config, on_cuda: bool, seconds: float = 4) -> list[dict[str, Any]]:
    """Points of cost; on a GPU 128 models at once, on a CPU one model on one thread."""
    models = MODELS if on_cuda else 1
    measured = [(setting, value, own, models) for setting, value, own in variants(config)]
    measured += [("M", n, config, n) for n in STACKS if on_cuda]
    points = []
    for setting, value, own, n in measured:
        us = cuda_microseconds(own, n) if on_cuda else 1e3 * single_step_ms(own, seconds)
        work = flops(own, "cuda" if on_cuda else "cpu")
        points.append(
            {"setting": setting, "value": value, "models": n, "gflop": work / 1e9, "us": us, "tflops": work / us / 1e6}
        )
    return points


PRECISIONS = {"fp32": COLORS.blue, "TF32": COLORS.vermilion}
SETTINGS = {
    "M": "models in the stack", "batch": "batch", "d": "width d (MLP 4d)", "N": "numbers N", "V": "variables V",
    "T": "tokens T",
}  # fmt: skip


def draw_costs(made: Figure) -> None:
    """One panel for each setting, with logarithmic axes."""
    points = {p: json.loads((HERE / f"scaling-{p.lower()}.json").read_text())["points"] for p in PRECISIONS}
    axes = made.subplots(2, 3)
    for (setting, title), ax in zip(SETTINGS.items(), axes.flat, strict=True):
        _draw_costs(points, setting, ax)
        ax.set_title(title)
    for ax in axes[:, 0]:
        ax.set_ylabel("µs per model and step")
    axes[0, 0].legend()


def _draw_costs(points: dict[str, list[dict[str, Any]]], setting: str, ax: Axes) -> None:
    shown = {p: [(x["value"], x["us"]) for x in some if x["setting"] == setting] for p, some in points.items()}
    for precision, color in PRECISIONS.items():
        ax.plot(*zip(*shown[precision], strict=True), "o-", color=color, label=precision, markersize=3)
    values, costs = np.array([point for some in shown.values() for point in some]).T
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ticks = np.unique(values)
    ticks = ticks[::2] if len(ticks) > 6 else ticks
    ax.set_xticks(ticks, [f"{v:g}" for v in ticks], minor=False)
    marks = [2**k for k in range(3, 11) if costs.min() / 2 < 2**k < costs.max() * 2]
    ax.set_yticks(marks, [str(v) for v in marks], minor=False)


def main() -> None:
    """Prints the points of cost as JSON, or draws those of the repository."""
    parser = ArgumentParser(description=main.__doc__)
    parser.add_argument("--preset", choices=PRESETS, default="paper", help="whose task and network")
    parser.add_argument("--device", default="cpu", help="cpu (one model on one thread), or cuda (128 models)")
    parser.add_argument("--tf32", action="store_true", help="round inputs of matrix products to TF32 on a GPU")
    parser.add_argument("--draw", action="store_true", help="draw docs/scale.png instead")
    args = parser.parse_args()
    preset, device, tf32, draw = args.preset, args.device, args.tf32, args.draw
    if draw:
        with figure(5.5, 4.2) as made:
            draw_costs(made)
            save(made, HERE.parent / "docs" / "scale")
        return
    config = replace(PRESETS[preset], numerics=replace(PRESETS[preset].numerics, tf32=tf32))
    points = scaling(config, device == "cuda")
    print(json.dumps({"tf32": tf32, "made_with": to_builtins(Environment.here(device, 1)), "points": points}, indent=1))


if __name__ == "__main__":
    main()
