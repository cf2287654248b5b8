"""assignadd operands"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from assignadd.cli import options
from assignadd.cli.screen import counting, note, print_json, print_table

if TYPE_CHECKING:
    from assignadd.claims.evidence import Evidence


@dataclass(frozen=True)
class Operands:
    """Accuracy with the attention of `=` in layer 1 changed by hand, for every model that binds variables."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...")]
    """Run folders, or their names under runs/."""
    step: int | None = None
    """The checkpoint. If None, each run's last one."""
    n: int = 4000
    """Sequences of each evaluation set."""
    threads: int | None = None
    """CPU threads. If None, every core."""
    json: bool = False
    """Print {"command", "made_with", "n", "models": [{"run", "seed", "sets": {set: {"accuracy", ...}}}]}."""


def main(arguments: list[str]) -> None:
    args = options.read(Operands, arguments, "operands")
    from assignadd.cli.claims import read_evidence
    from assignadd.model.architecture import PAPER_NEEDS, require

    found: list[dict[str, Any]] = []
    evidences = read_evidence(args.runs, args.step, args.n, options.resolve_threads(args.threads))
    for evidence in evidences:
        require(evidence.config, "the changed attention of = in layer 1", *PAPER_NEEDS)
    with counting("changing attention", "models") as listener:
        for i, evidence in enumerate(evidences):
            listener(i, len(evidences))
            if evidence.learned_binding:
                found.append(_model(evidence))
            else:
                note(f"seed {evidence.seed} of {evidence.name} does not bind variables and is left out")
        listener(len(evidences), len(evidences))
    if args.json:
        import msgspec

        from assignadd.runs.environment import Environment

        made = msgspec.to_builtins(Environment.here("cpu", options.resolve_threads(args.threads)))
        command = shlex.join(["assignadd", "operands", *arguments])
        print_json({"command": command, "made_with": made, "n": args.n, "models": found})
    else:
        _print(found)


def _model(evidence: Evidence) -> dict[str, Any]:
    from assignadd.claims.look_up import losses
    from assignadd.interventions.operand_attention import UNCHANGED, operand_attention

    sets: dict[str, Any] = {}
    for name, found in operand_attention(evidence.stack, evidence.config, evidence.seen, evidence.n).items():
        changes = [change for change in found.correct if change != UNCHANGED]
        lost = dict(zip(changes, losses(found, *changes), strict=True))
        sets[name] = {
            "accuracy": round(found.correct[UNCHANGED].double().mean().item(), 5),
            "lost": {change: [round(x, 4) for x in (m.value, m.low, m.high)] for change, m in lost.items()},
            "weights": {kind: round(w.double().mean().item(), 4) for kind, w in found.weights.items()},
            "operands on top": {
                change: round(top.double().mean().item(), 4) for change, top in found.operands_on_top.items()
            },
        }
    return {"run": evidence.name, "seed": evidence.seed, "step": evidence.step, "sets": sets}


def _print(models: list[dict[str, Any]]) -> None:
    from assignadd.task.evalsets import LABELS

    for name in dict.fromkeys(name for model in models for name in model["sets"]):
        own = [(model, model["sets"][name]) for model in models if name in model["sets"]]
        columns = [f"seed {model['seed']}" for model, _ in own]
        rows = [["accuracy", *(f"{found['accuracy']:.3f}" for _, found in own)]]
        rows += [
            [f"weight: {kind}", *(f"{found['weights'][kind]:.3f}" for _, found in own)] for kind in own[0][1]["weights"]
        ]
        rows += [
            [f"lost: {change}", *(f"{found['lost'][change][0]:+.3f}" for _, found in own)]
            for change in own[0][1]["lost"]
        ]
        print_table(LABELS[name], ["", *columns], rows)
