"""What the report begins with: the networks in a few words, links, five findings; and the verdicts of a section."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from assignadd.config import Task
from assignadd.dynamics.of_network import binds
from assignadd.dynamics.phases import BINDING_SET, BINDING_THRESHOLD
from assignadd.ledger.claim import NOT_REPORTED, OURS, Record, find
from assignadd.network import Network
from assignadd.report.claims_table import ORDER, TONES, group, is_the_papers
from assignadd.report.hub_folder import ARXIV
from assignadd.report.page import Card, Page, number
from assignadd.stats.verdicts import BROKEN, FAILS, NOT_APPLICABLE, SOME_SEEDS, UNMEASURED, UNTESTABLE
from assignadd.task import examples
from assignadd.task.evalsets import LABELS
from assignadd.task.text import render

LISTED = 8


def first_screen(
    page: Page,
    networks: Sequence[Network],
    records: Sequence[Record],
    picture: Callable[[str], Path | None],
    explorer: str | None,
) -> None:
    """Adds it; `picture` returns the file of a figure, `explorer` is the address of the interactive page, if any."""
    _summary(page, networks)
    links = [("the paper", f"https://arxiv.org/abs/{ARXIV}"), ("commands", "#section-provenance-and-commands")]
    links += [("every claim with its verdict", "#section-every-claim")]
    page.text("See also:", links=links + ([("the interactive page", explorer)] if explorer else []))
    if other := next((e for e in networks if not is_the_papers(e.config)), None):
        task = other.config.task
        page.banner(
            f"This page has another task or network than the paper's: {_verb(task)} with {task.n_vars} variables in "
            f"sequences of {task.length} tokens, and {_architecture(other)}, width {other.config.model.d_model}. The "
            "thresholds of the claims are the paper's, for its own task and network: a verdict says whether a number "
            "of these networks passes that threshold, not whether the paper is right."
        )
    if cards := findings(records, picture):
        page.heading(f"{len(cards)} findings" if len(cards) > 1 else "One finding")
        page.cards(cards)


def _verb(task: Task) -> str:
    """What is done with the values, as an infinitive."""
    verb = task.operation if task.operation in ("add", "subtract", "multiply") else f"compute `{task.operation}`"
    return f"to {verb} mod {task.modulus}"


def name_of(evidence: Network) -> str:
    return f"seed {evidence.seed} of {evidence.name}"


def _architecture(evidence: Network) -> str:
    model = evidence.config.model
    heads = "one head" if model.n_heads == 1 else f"{model.n_heads} heads"
    return f"{model.n_layers} layer{'s' * (model.n_layers > 1)} of {heads}"


def _summary(page: Page, networks: Sequence[Network]) -> None:
    learned = [e for e in networks if binds(e)]
    task = networks[0].config.task
    example = examples.fitted(examples.ATTENTION, task)
    such = "" if example is None else f" such as `{render(example, task)}`"
    bind = "binds" if len(learned) == 1 else "bind"
    page.text(
        f"A transformer with {_architecture(networks[0])} is trained on sequences{such}: to look variables up and "
        f"{_verb(task)}. This page was made from {len(networks)} trained networks; {len(learned)} of them {bind} "
        f"variables in the end (accuracy of at least {BINDING_THRESHOLD:.0%} on sums with {LABELS[BINDING_SET]})."
    )
    if not learned:
        page.text("No network binds variables in the end. That is a result, not an error.")
    elif len(learned) < len(networks):
        others = [e for e in networks if not binds(e)]
        names = ", ".join(name_of(e) for e in others)
        page.text(
            f"{len(others)} of {len(networks)} do not bind ({names}): that is a result, not an error. Claims about "
            "binding cannot be tested on them and are judged on the others."
        )


def verdicts_in_words(page: Page, records: Sequence[Record]) -> None:
    """Adds how many claims of a section have each verdict, with links to the paper's that do not hold in every seed."""
    if not records:
        return
    counts = Counter(group(record.verdict) for record in records)
    words = ", ".join(f"{verdict}: {counts[verdict]}" for verdict in ORDER if counts[verdict])
    claims = f"{len(records)} claims and readings" if len(records) > 1 else "one claim"
    page.text(f"The {claims} of this section by {'their verdicts' if len(records) > 1 else 'its verdict'}: {words}.")
    refuted = [r for r in records if r.label != OURS and group(r.verdict) in (FAILS, SOME_SEEDS)]
    if refuted:
        links = [(record.claim.rstrip("."), f"#claim-{record.id}") for record in refuted[:LISTED]]
        more = f" (the first {LISTED} of {len(refuted)})" if len(refuted) > LISTED else ""
        page.text(f"The paper's statements that do not hold, or not in every seed{more}:", links=links)


SHOWN = 5
OPEN = (BROKEN, UNTESTABLE, NOT_APPLICABLE, UNMEASURED)


@dataclass(frozen=True)
class Finding:
    question: str
    claim: str  # the id of the one that answers it
    figures: tuple[str, ...]  # labels; where a network has no such figure, the next one is shown


# The first five that could be tested are shown.
FINDINGS = (
    Finding("Does it answer sums that it never saw?", "held-out-pairs-99.4", ("accuracies", "held_out_classes")),
    Finding("Does = find the two numbers?", "attn-l2-equal-to-values", ("circuit", "attention")),
    Finding("Does adding come before looking up?", "addition-first-train", ("progress_measures", "onsets")),
    Finding("Does every seed learn to look up?", "every-seed-binds", ("census",)),
    Finding("Does it answer held-out doubles n + n?", "held-out-pairs-99.4:doubles", ("pairs",)),
    Finding("Does a variable work in a slot new to it?", "new-positions-99.6", ("variables", "doubly_held_out")),
    Finding("Is the sum computed by the MLP?", "probe-after-mlp", ("probes",)),
    Finding("Is one neuron nearly one wave?", "fourier-best-neuron", ("preacts",)),
    Finding("Is the theorem's memory its largest term?", "theory-memory-dominates", ("theory_beta",)),
)


def findings(records: Sequence[Record], picture: Callable[[str], Path | None]) -> list[Card]:
    """The cards of the first five questions whose claims were decided, then of others, if these are fewer.

    `picture` returns the SVG file of a figure; None where it was not drawn or there were no data for it.
    """
    asked = [(finding, line) for finding in FINDINGS if (line := find(records, finding.claim)) is not None]
    decided = [pair for pair in asked if pair[1].verdict not in OPEN]
    chosen = (decided + [pair for pair in asked if pair not in decided])[:SHOWN]
    return [_card(finding, line, picture) for finding, line in asked if (finding, line) in chosen]


def _card(finding: Finding, record: Record, picture: Callable[[str], Path | None]) -> Card:
    figure = next((label for label in finding.figures if picture(label)), finding.figures[0])
    tone = TONES.get(group(record.verdict), "")
    text = f"{record.claim} {_numbers(record)}".strip()
    return Card(finding.question, record.verdict, tone, text, picture(figure), figure, record.id)


def _numbers(record: Record) -> str:
    """The measured number with its interval and what it is over, and the paper's."""
    paper = "" if record.paper == NOT_REPORTED else f" The paper says: {record.paper}."
    if record.value is None:
        return paper.strip()
    interval = ""
    if record.low is not None and record.high is not None and record.low != record.high:
        interval = f" [{number(record.low, 3)}, {number(record.high, 3)}]"
    seeds = f", {record.seeds} networks" if record.seeds > 1 and record.unit != "seeds" else ""
    over = f" ({record.sample}{seeds})" if record.n else ""
    return f"Measured: {number(record.value, 3)}{interval}{over}.{paper}"
