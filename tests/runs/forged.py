"""Runs as a stranger could make them: hostile, with hashes and seals that fit, which anybody can compute."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import safetensors.torch
import torch
from torch import Tensor

from assignadd.dynamics.trajectory import _origin, measured_run
from assignadd.runs.encoding import encode_table
from assignadd.runs.folder import Run

Values = dict[str, Any]
Forge = Callable[[Path], None]
CHECKPOINT, STATE, ZEROS = "checkpoints/00000060.safetensors", "states/00000060.safetensors", "0" * 64


def manifest(change: Callable[[Values], object]) -> Forge:
    """Changes `manifest.json` as plain JSON, and seals it anew."""

    def forge(run: Path) -> None:
        values = json.loads((run / "manifest.json").read_text())
        change(values)
        last = {"format": values.pop("format"), "seal": values.pop("seal")}  # they stand last
        unsealed = json.dumps(values | last | {"seal": ""}, indent=1, ensure_ascii=False).encode() + b"\n"
        seal = hashlib.sha256(unsealed).hexdigest()
        data = json.dumps(values | last | {"seal": seal}, indent=1, ensure_ascii=False).encode() + b"\n"
        (run / "manifest.json").write_bytes(data)

    return forge


def listed(run: Path, name: str, **blob: Any) -> None:
    """Other values in the manifest for a file of a run."""

    def change(values: Values) -> None:
        if name == "metrics.jsonl":
            values["metrics"] |= blob
            for file in values["files"].values():
                file.pop("metrics", None)
        else:
            values["files"][name] |= blob

    manifest(change)(run)


def content(name: str, change: Callable[[bytes], bytes]) -> Forge:
    """Other bytes for a file of a run, with a manifest that fits them."""

    def forge(run: Path) -> None:
        data = change((run / name).read_bytes())
        (run / name).write_bytes(data)
        listed(run, name, size=len(data), sha256=hashlib.sha256(data).hexdigest())

    return forge


def size(name: str, of: int) -> Forge:
    return lambda run: listed(run, name, size=of)


def settings(text: str, by: str) -> Forge:
    return content("config.json", lambda data: data.decode().replace(text, by, 1).encode())


def models(n: int, more: str = "", **others: Forge) -> Forge:
    """A run of so many models; `others` are done before."""
    each = ",".join(f'{{"seed":{i}{more}}}' for i in range(n))

    def forge(run: Path) -> None:
        for other in others.values():
            other(run)
        settings('{\n      "seed": 0\n    }', each)(run)
        manifest(lambda values: values.update(seeds=list(range(n))))(run)

    return forge


def rows(change: Callable[[Values], object]) -> Forge:
    """Every row of the metrics changed."""

    def changed(data: bytes) -> bytes:
        lines = [json.loads(line) for line in data.splitlines()]
        for line in lines:
            change(line)
        return b"".join(json.dumps(line).encode() + b"\n" for line in lines)

    return content("metrics.jsonl", changed)


def tensors(name: str, change: Callable[[dict[str, Tensor]], object]) -> Forge:
    def changed(data: bytes) -> bytes:
        loaded = safetensors.torch.load(data)
        change(loaded)
        return safetensors.torch.save({k: t.contiguous() for k, t in loaded.items()}, {"format": "pt"})

    return content(name, changed)


def weights(value: float) -> Forge:
    return tensors(CHECKPOINT, lambda w: w.update({k: torch.where(t > 0, value, -value) for k, t in w.items()}))


def header(text: str, length: int | None = None) -> Forge:
    """A checkpoint that is the header of a safetensors file alone."""
    return content(CHECKPOINT, lambda _: (length or len(text)).to_bytes(8, "little") + text.encode())


def hollow(name: str, of: int) -> Forge:
    """A file of zeros, which an archive keeps small."""

    def forge(run: Path) -> None:
        digest, part = hashlib.sha256(), bytes(1 << 20)
        for _ in range(of >> 20):
            digest.update(part)
        with open(run / name, "wb") as file:
            file.truncate(of)
        listed(run, name, size=of, sha256=digest.hexdigest())

    return forge


def stored(change: Callable[[polars.DataFrame], polars.DataFrame]) -> Forge:
    """A table of measures beside the run."""

    def forge(path: Path) -> None:
        run = Run.open(path)
        (path / "measures.parquet").write_bytes(encode_table(change(measured_run(run)), _origin(run)))

    return forge


def column(value: Any) -> Forge:
    return stored(lambda table: table.with_columns(polars.Series("bomb", [value] * len(table))))


MILLION = ",".join(["0"] * 997**2)
FORGERIES: dict[str, Forge] = {
    **{f"{name} of 2^{n}": size(name, 2**n) for name, n in (
        ("config.json", 63), ("config.json", 46), (CHECKPOINT, 46), ("splits.safetensors", 46), (STATE, 46),
        ("metrics.jsonl", 46), ("metrics.jsonl", 63), ("metrics.jsonl", 64))},
    "steps": manifest(lambda m: m.update(step=2**52, steps=2**52)),
    "seeds": manifest(lambda m: m.update(seeds=list(range(1_000_000)))),
    "huge seed": manifest(lambda m: m.update(seeds=[10**400])),
    "sources": manifest(lambda m: m.update(sources={f"x{i}": ZEROS for i in range(500_000)})),
    "fewer sources": manifest(lambda m: m.update(sources={f"x{i}": ZEROS for i in range(100_000)})),
    "sessions": manifest(lambda m: m.update(sessions=m["sessions"] * 20_000)),
    "escapes": manifest(lambda m: m.update(sources={"\x1b]0;owned\x07": ZEROS, "[red]": ZEROS})),
    "observed": manifest(lambda m: m.update(
        observed={"name": "\x1b[2J", "source": ZEROS, "file": None, "columns": {f"\x1b{i}": "x" for i in range(999)}})),
    "nested manifest": lambda run: (run / "manifest.json").write_bytes(b'{"sources":' * 200_000) and None,
    "nested settings": content("config.json", lambda _: b'{"config":' + b"[" * 200_000),
    "nested setting": settings('"seed": 0', '"seed": 0, "lr": ' + "[" * 900 + "]" * 900),
    "nested metrics": content("metrics.jsonl", lambda _: b'{"step": 0, "model": 0, "x":' + b"[" * 200_000 + b"\n"),
    "long number": settings('"lr": 0.001', '"lr": ' + "9" * 1_000_000),
    "200,000 models": models(200_000, ',"optim.lr":0.001'),
    "4,096 models": models(4096, ',"task.seen_fraction":0.5'),
    "a table for each": models(4096, ',"task.seen_fraction":0.5', table=settings(
        '"modulus": 7,', f'"modulus": 997, "operation": "table", "table": [{MILLION}],')),
    "large model": settings('"d_model": 16', '"d_model": 4096'),
    "layers": settings('"n_layers": 2', '"n_layers": 1000000000'),
    "widths": settings("32\n", ",".join(["32"] * 1_000_000)),
    "modulus": settings('"modulus": 7', '"modulus": 997'),
    "evaluations": settings('"eval_every": 20', '"eval_every": 1'),
    "hollow metrics": hollow("metrics.jsonl", 1 << 30),
    "many rows": content("metrics.jsonl", lambda _: b"{}\n" * 40_000_000),
    "small lists": content("metrics.jsonl", lambda _: b'{"x":[' + b"[]," * 40_000_000 + b"[]]}\n"),
    "empty rows": content("metrics.jsonl", lambda _: b"{}\n" * 5),
    "no rows but lines": content("metrics.jsonl", lambda _: b"\n\n"),
    "rows twice": content("metrics.jsonl", lambda data: data * 2),
    "no accuracy": rows(lambda row: row.pop("accuracy")),
    "fewer accuracies": rows(lambda row: row["accuracy"].popitem() if row["step"] else None),
    **{f"{name} {value!r}": rows(lambda row, name=name, value=value: row.update({name: value})) for name, value in (
        ("model", 10**9), ("model", "x"), ("model", []), ("model", -1), ("seed", "\x1b]0;x\x07"), ("step", "x"),
        ("step", -1), ("diverged_at", "x"), ("diverged_at", [1]), ("diverged_at", 0), ("loss", "x"), ("loss", 1e308),
        ("accuracy", {"\x1b[2J": 1.0}), ("accuracy", [1]), ("accuracy", None), ("measures", 1))},
    "accuracies beyond 1": rows(lambda row: row.update(accuracy=dict.fromkeys(row["accuracy"], 1e300))),
    "steps that fall": rows(lambda row: row.update(step=100 - row["step"])),
    **{f"weights of {value}": weights(value) for value in (3e38, 1e30, 1e15, 1e-42, 0.0)},
    "no number": tensors(CHECKPOINT, lambda w: w.update({"embed.W_E": w["embed.W_E"] * float("nan")})),
    "20,000 tensors": tensors(CHECKPOINT, lambda w: w.update({f"x{i}": torch.zeros(1) for i in range(20_000)})),
    "no tensors": tensors(CHECKPOINT, lambda w: w.clear()),
    "long header": header("{}", 2**62),
    "nested header": header('{"a":' + "[" * 100_000),
    "huge shape": header('{"embed.W_E":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}'),
    "odd type": header('{"embed.W_E":{"dtype":"F4","shape":[0],"data_offsets":[0,0]}}'),
    "nothing seen": tensors("splits.safetensors", lambda w: w.update(seen=w["seen"] & False)),
    "all seen": tensors("splits.safetensors", lambda w: w.update(seen=w["seen"] | True)),
    "measures: rows": stored(lambda table: table.head(1).select(polars.all().repeat_by(3_000_000).explode())),
    "measures: lists": column([0] * 5_000_000),
    "measures: text": column("x" * 50_000_000),
    "measures: names": column(1.0),
}  # fmt: skip
