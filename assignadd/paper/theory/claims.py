"""The statements of section 7 and appendix C (theory), as records of the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assignadd.dynamics.of_network import binds
from assignadd.ledger.claim import CANNOT, Record, SeedResult, in_words, verdict_over
from assignadd.model.architecture import PAPER_NEEDS, lacking
from assignadd.network import Job, Network, runs_of
from assignadd.paper.theory.numbers import TheoryNumbers, statements, theory_numbers
from assignadd.paper.theory.real_gradient import CLAIMS, informative_steps, real_statements, theory_gradient_of
from assignadd.paper.theory.setting import Setting
from assignadd.stats.intervals import median_interval
from assignadd.stats.verdicts import NOT_APPLICABLE, Statement

LABEL = "thm:c1"
COMMAND = "assignadd theory"


_known: list[TheoryNumbers] = []


def paper_numbers() -> TheoryNumbers:
    """All numbers on the theory at the sizes of the paper's experiment, computed once."""
    if not _known:
        _known.append(theory_numbers(Setting()))
    return _known[0]


# What the ledger needs that takes long and is of no network.
THEORY = Job("theory", paper_numbers, _known.append)
# Of what `assignadd theory` shows: identities of algebra, bounds that cannot fail, and statements of ours.
NOT_CLAIMED = frozenset(
    f"theory.{name}"
    for name in (
        "mlp_adds", "mlp_gradient", "expansion", "same_attention", "G_1_G_2", "G_3", "logits_bounded", "near_uniform",
        "gradient_bounded", "remainder_small_here", "bound_and_step_together",
    )
)  # fmt: skip


def theory_records(networks: Sequence[Network]) -> list[Record]:
    """Records of the theory itself, which need no network, then of the training of these models.

    The theory only predicts how binding is learned, so networks that did not learn it are left out.
    """
    defined = [e for e in networks if not lacking(e.config, *PAPER_NEEDS)]
    undefined = "" if defined or not networks else lacking(networks[0].config, *PAPER_NEEDS)
    asked = [e for e in defined if binds(e) and theory_gradient_of(e) is not None]
    by_model = [real_statements(theory_gradient_of(e), f"seed {e.seed} of {e.name}") for e in asked]
    command = " ".join([COMMAND, *(str(run.path) for run in runs_of(asked))])
    real = [_over_seeds(name, asked, [found[i] for found in by_model], command) for i, name in enumerate(CLAIMS)]
    if undefined:
        words = f"Not defined for this architecture: it {undefined}."
        real = [replace(record, verdict=NOT_APPLICABLE, comment=words) for record in real]
    claimed = [v for v in statements(paper_numbers()) if v.id not in NOT_CLAIMED]
    return [*map(_of_theory, claimed), *real]


def _of_theory(v: Statement) -> Record:
    found = v.record()
    n, unit = (v.draws, "sequences") if v.draws else (0, "")
    return Record(
        v.value, found["low"], found["high"], n, unit, 0, v.verdict, v.rule, id=_id(v.id), label=LABEL,
        claim=f"{v.claim}.", paper=v.paper, comment=f"{v.detail}.", command=COMMAND,
    )  # fmt: skip


def _id(name: str) -> str:
    return name.replace(".", "-").replace("_", "-")


def _over_seeds(name: str, asked: Sequence[Network], found: Sequence[Statement], command: str) -> Record:
    results = [
        SeedResult(e.name, e.seed, v.value, v.value, v.value, v.verdict)
        for e, v in zip(asked, found, strict=True)
        if v.value is not None
    ]
    n = len(results)
    value, low, high, comment = _summary([r.value for r in results], [v.detail for v in found if v.value is not None])
    claim, paper, rule = CLAIMS[name]
    steps = informative_steps(asked[0].steps, asked[0].rows) if asked else []
    return Record(
        value, low, high, n, "networks", n, verdict_over(results), rule, tuple(results), id=_id(f"theory.{name}"),
        label=LABEL, claim=f"{claim}.", paper=paper, comment=comment, command=command, checkpoints=in_words(steps),
    )  # fmt: skip


def _summary(values: Sequence[float], details: Sequence[str]) -> tuple[float | None, float | None, float | None, str]:
    """Median over seeds, its interval (from six seeds on) and a comment; one network has its number at both ends."""
    if not values:
        return None, None, None, CANNOT
    value, interval = median_interval(values)
    if len(values) == 1:
        return value, value, value, f"{details[0]}."
    n = len(values)
    said = f"Median of the {n} seeds that learned binding; they range from {min(values):.3g} to {max(values):.3g}"
    if interval is None:
        return value, None, None, f"{said}, too few for an interval of the median."
    return value, interval.low, interval.high, f"{said}."
