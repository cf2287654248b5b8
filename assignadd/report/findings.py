"""The first screen of the report: five questions, each answered by the verdict on a claim, a figure and its numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from assignadd.claims.record import NOT_REPORTED, OF_BINDING, Record
from assignadd.report.claims_table import TONES, group
from assignadd.report.html import number
from assignadd.report.page import Card
from assignadd.verdicts import NOT_APPLICABLE, UNMEASURED, UNTESTABLE

SHOWN = 5
OPEN = (UNTESTABLE, NOT_APPLICABLE, UNMEASURED)


@dataclass(frozen=True)
class Finding:
    question: str
    claim: str
    """The id of the claim that answers it."""
    figures: tuple[str, ...]
    """Labels, the preferred one first: where a network has no such figure, the next one is shown."""


# The first five that could be tested are shown.
FINDINGS = (
    Finding("Does it answer sums that it never saw?", "held-out-pairs-99.4", ("accuracies", "held_out_classes")),
    Finding("Does = find the two numbers?", "attn-l2-equal-to-values", ("circuit", "attention")),
    Finding("Does adding come before looking up?", "addition-first-train", ("progress_measures", "onsets")),
    Finding("Does every seed learn to look up?", "every-seed-binds", ("census",)),
    Finding("Does it answer held-out doubles n + n?", "held-out-doubles", ("pairs",)),
    Finding("Does a variable work in a slot new to it?", "new-positions-99.6", ("variables", "doubly_held_out")),
    Finding("Is the sum computed by the MLP?", "probe-after-mlp", ("probes",)),
    Finding("Is one neuron nearly one wave?", "fourier-best-neuron", ("preacts",)),
    Finding("Is the theorem's memory its largest term?", "theory-memory-dominates", ("theory_beta",)),
)


def findings(records: Sequence[Record], picture: Callable[[str], Path | None]) -> list[Card]:
    """The cards of the first five questions whose claims were decided, then of others, if these are fewer.

    `picture` returns the SVG file of a figure; None where it was not drawn or there were no data for it.
    """
    by_id = {record.id: record for record in records}
    asked = [(finding, by_id[finding.claim]) for finding in FINDINGS if finding.claim in by_id]
    decided = [pair for pair in asked if pair[1].verdict not in OPEN]
    chosen = (decided + [pair for pair in asked if pair not in decided])[:SHOWN]
    return [_card(finding, record, picture) for finding, record in asked if (finding, record) in chosen]


def _card(finding: Finding, record: Record, picture: Callable[[str], Path | None]) -> Card:
    figure = next((label for label in finding.figures if picture(label)), finding.figures[0])
    tone = TONES.get(group(record.verdict), "")
    text = f"{record.claim} {_numbers(record)}".strip()
    return Card(finding.question, record.verdict, tone, text, picture(figure), figure, record.id)


def _numbers(record: Record) -> str:
    """The measured number with its interval and what it is over, and the paper's."""
    paper = "" if record.paper == NOT_REPORTED else f" The paper: {record.paper}."
    if record.value is None:
        return paper.strip()
    interval = ""
    if record.low is not None and record.high is not None and record.low != record.high:
        interval = f" [{number(record.low, 3)}, {number(record.high, 3)}]"
    binding = re.match(OF_BINDING.format(r"(\d+)"), record.comment)
    seeds = f", {binding[1]} seed{'s' * (binding[1] != '1')} that learned binding" if binding else ""
    over = f" ({record.sample}{seeds})" if record.n else ""
    return f"Measured: {number(record.value, 3)}{interval}{over}.{paper}"
