"""Claims of section 4: what the trained network gets right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assignadd.claims.evidence import Evidence
from assignadd.claims.record import AtLeast, Claim, Measured
from assignadd.task.evalsets import DOUBLY_HELD_OUT, EVAL_SETS

TEST_SETS = [s.name for s in EVAL_SETS if s.pair != "seen" or s.n_banned]
HELD_OUT_PAIRS = [s.name for s in EVAL_SETS if s.pair == "held_out"]
BANNED_SLOTS = [s.name for s in EVAL_SETS if s.n_banned]


def accuracy_on(sets: Sequence[str]) -> Callable[[Evidence], Measured | None]:
    """Accuracy over sets taken together, with Wilson's interval; None where a set is empty under the model's split."""

    def measure(evidence: Evidence) -> Measured | None:
        found = [evidence.accuracies[name] for name in sets if name in evidence.accuracies]
        if len(found) < len(sets):
            return None
        return Measured.share(sum(round(a.accuracy * a.n) for a in found), sum(a.n for a in found), "sequences")

    return measure


def slug(name: str) -> str:
    return name.replace(" (", "-").replace(")", "").replace(" ", "-")


GENERALISATION = (
    *(
        Claim(
            f"over-98-{slug(name)}", "accuracies", f"Test accuracy is over 98 % on every type of addition: {name}.",
            "over 98 %", accuracy_on([name]), AtLeast(0.98),
        )
        for name in TEST_SETS
    ),
    Claim(
        "new-positions-99.6", "section 4", "Variables in positions never trained are handled: one-variable sums.",
        "99.6 %", accuracy_on(["1-var var-restricted"]), AtLeast(0.996),
    ),
    Claim(
        "new-positions-99.6-all", "section 4", "Variables in positions never trained are handled: one- and two-variable sums together.",
        "99.6 %", accuracy_on(BANNED_SLOTS), AtLeast(0.996), comment="The paper does not say which sequences its set holds.",
    ),
    Claim(
        "held-out-pairs-99.4", "section 4", "Sums held out from training are answered: literals only.",
        "99.4 %", accuracy_on(["0-var add-restricted"]), AtLeast(0.994),
    ),
    Claim(
        "held-out-pairs-99.4-all", "section 4", "Sums held out from training are answered: all types together.",
        "99.4 %", accuracy_on(HELD_OUT_PAIRS), AtLeast(0.994), comment="The paper does not say which sequences its set holds.",
    ),
    Claim(
        "held-out-pairs-mirror-seen", "ours", "Held-out sums whose mirror image (m, n) was trained.",
        "99.4 % over both kinds", accuracy_on(["0-var mirror seen"]), AtLeast(0.994),
        comment="About two thirds of the held-out pairs: the network is symmetric in its operands, so these are close to seen data.",
    ),
    Claim(
        "held-out-pairs-mirror-held-out", "ours", "Held-out sums whose mirror image was held out too: no commutativity to lean on.",
        "99.4 % over both kinds", accuracy_on(["0-var mirror held out"]), AtLeast(0.994),
    ),
    *(
        Claim(
            f"over-98-{slug(s.name)}", "ours", f"The 98 % extend to a held-out sum with a variable in a banned slot: {s.name}.",
            "not reported", accuracy_on([s.name]), AtLeast(0.98),
        )
        for s in DOUBLY_HELD_OUT
    ),
    Claim(
        "no-first-mlp", "section 3", "The first layer needs no MLP: a network without one learns one- and two-variable sums.",
        "unnecessary", accuracy_on(["1-var train", "2-var train"]), AtLeast(0.98),
    ),
)  # fmt: skip
