"""The reproduction page: the claims, the figures, what every seed learned, and where every number came from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from assignadd.config import Task
from assignadd.dynamics.phases import BINDING_SET, BINDING_THRESHOLD
from assignadd.dynamics.trajectory import binds, trajectory_of
from assignadd.figure.record import Absent, FigureRecord, Sources
from assignadd.ledger.claim import NOT_REPORTED, OURS, Record, find
from assignadd.measures.accuracies import EndAccuracy, end_accuracies_of
from assignadd.network import Network, runs_of
from assignadd.paper.generalisation.claims import achieved
from assignadd.paper.generalisation.figures import ACCURACIES_FIGURE
from assignadd.report.claims_table import ORDER, TONES, across_seeds, claims_table, group, is_the_papers
from assignadd.report.hub_folder import ARXIV
from assignadd.report.page import Card, Cell, Page, number
from assignadd.report.sections import POPULATIONS, SECTIONS
from assignadd.runs import atomic
from assignadd.runs.files import claim_folder, folder_inside
from assignadd.runs.folder import Run
from assignadd.stats import BROKEN, FAILS, NOT_APPLICABLE, SOME_SEEDS, UNMEASURED, UNTESTABLE
from assignadd.sweeps.population import Populations
from assignadd.task import examples
from assignadd.task.evalsets import ALL_SETS, LABELS
from assignadd.task.text import render
from assignadd.training.processes import in_background

SUFFIXES = (".npz", ".svg", ".png")
CAPTION = ".txt"
WIDE = 8.0  # inches; a wider figure would be too small to read in a column of text
TITLE = "Assign and Add, reproduced"


def claim_report(folder: Path) -> None:
    """Makes the folder of a report, and refuses one that holds anything else."""
    claim_folder(folder, "report")
    folder_inside(folder, "figures")


@contextmanager
def drawing_pictures(
    folder: Path, networks: Sequence[Network], populations: Populations, processes: int = 1
) -> Iterator[int]:
    """Draws every figure into `folder`/figures while the body runs; yields the number of figures.

    With one process they are drawn after the body.
    """
    claim_report(folder)
    shown = _binding_first(networks)
    pictures = _pictures(shown)
    # Tables are read before processes are forked, in which Polars cannot be used.
    populations.load()
    trajectory_of(shown[0])

    def draw(picture: tuple[FigureRecord, Sequence[Network]]) -> None:
        record, models = picture
        stem, data = _stem(record.label, folder), record.data_of(Sources(models, populations))
        record.save(data, stem)
        atomic.write(stem.with_suffix(CAPTION), record.caption(data).encode())

    with in_background(draw, pictures, processes):
        yield len(pictures)


def write_page(folder: Path, networks: Sequence[Network], records: Sequence[Record], command: str) -> Path:
    """Writes `folder`/index.html, with the figures drawn into `folder`, and returns its path; `command` made it."""
    shown = _binding_first(networks)
    page = Page(TITLE)
    # The interactive page, if `make explorer` or `assignadd explore` made it beside the report.
    explorer = "../explorer/index.html" if (folder.parent / "explorer" / "index.html").is_file() else None
    first_screen(page, networks, records, lambda label: _picture_file(folder, label), explorer)
    page.contents()
    page.heading("Accuracies during training")
    _curves(page, shown, folder, command)
    page.heading("Accuracy at the end")
    _final_table(page, networks)
    for section in SECTIONS:
        page.heading(section.heading)
        verdicts_in_words(page, [record for record in records if section.has(record)])
        if section.of_one_model:
            _which(page, shown[0])
        elif section.figures == POPULATIONS:
            across_seeds(page, records, networks)
        for record in section.figures:
            _add_picture(page, record, folder, command)
    page.heading("Provenance and commands")
    _provenance(page, networks, command)
    page.heading("Every claim")
    claims_table(page, records, [figure.label for figure, _ in _pictures(shown)])
    index = folder / "index.html"
    atomic.write(index, page.html().encode())
    return index


def _binding_first(networks: Sequence[Network]) -> list[Network]:
    """Those that learned binding, then the others; each in the order given."""
    return sorted(networks, key=lambda network: not binds(network))


def _pictures(shown: Sequence[Network]) -> list[tuple[FigureRecord, Sequence[Network]]]:
    """All figures of the page, and the networks that each is drawn for."""
    return [*_curve_pictures(shown), *((record, shown) for section in SECTIONS for record in section.figures)]


def _curve_pictures(shown: Sequence[Network]) -> list[tuple[FigureRecord, Sequence[Network]]]:
    """Figure `accuracies` for every network whose training was followed: accuracies, accuracies2, and so on."""
    trained = [network for network in shown if _has_curves(network)]
    others = [
        replace(ACCURACIES_FIGURE, label=f"accuracies{i}", look_for="As above, for another network.")
        for i in range(2, len(trained) + 1)
    ]
    records = [ACCURACIES_FIGURE, *others]
    return [
        (replace(record, title=_title(network)), [network]) for record, network in zip(records, trained, strict=False)
    ]


def _add_picture(page: Page, record: FigureRecord, folder: Path, command: str) -> None:
    """Adds a figure that was drawn into `folder` to the page."""
    files = [f"figures/{record.label}{suffix}" for suffix in SUFFIXES]
    stem = _stem(record.label, folder)
    look_for = stem.with_suffix(CAPTION).read_text(encoding="utf-8")
    page.picture(
        record.label, record.title, look_for, stem.with_suffix(".svg"), files, f"made by `{command}`",
        wide=record.width > WIDE,
    )  # fmt: skip


def _stem(label: str, folder: Path) -> Path:
    return folder / "figures" / label


def _picture_file(folder: Path, label: str) -> Path | None:
    """The SVG file of a figure; None where it was not drawn, or there were no data for it."""
    stem = _stem(label, folder)
    if not stem.with_suffix(".npz").is_file():
        return None
    with np.load(stem.with_suffix(".npz"), allow_pickle=False) as arrays:
        absent = arrays.files == [field.name for field in fields(Absent)]
    return None if absent else stem.with_suffix(".svg")


def _curves(page: Page, shown: Sequence[Network], folder: Path, command: str) -> None:
    for record, _ in _curve_pictures(shown):
        _add_picture(page, record, folder, command)
    others = [network for network in shown if not _has_curves(network)]
    reasons = "evaluated once in training", "imported, without a record of their training"
    for why, recorded in zip(reasons, (True, False), strict=True):
        if names := ", ".join(name_of(network) for network in others if bool(network.rows) == recorded):
            page.text(f"Networks without curves, as they were {why}: {names}.", soft=True)


def _has_curves(network: Network) -> bool:
    """Whether accuracies were recorded more than once in training."""
    return len(network.rows) > 1


def _title(network: Network) -> str:
    learned = "" if binds(network) else ", no binding in the end"
    return f"Accuracies by evaluation set, {name_of(network)}{learned}"


def _which(page: Page, first: Network) -> None:
    bound, unbound = "the first that binds variables in the end", "although it does not bind variables in the end"
    which = bound if binds(first) else unbound
    page.text(
        f"Drawn for {name_of(first)} at step {first.step:,}, {which}; figures that compare networks show all of them. "
        "Every picture is also beside this page as SVG and PNG, with the arrays it was drawn from."
    )


def _final_table(page: Page, networks: Sequence[Network]) -> None:
    sets = [s for s in ALL_SETS if any(s.name in end_accuracies_of(network) for network in networks)]
    rows: list[list[str | Cell]] = [
        [s.label, *[_with_interval(end_accuracies_of(network).get(s.name)) for network in networks]] for s in sets
    ]
    page.table(("set", *[name_of(network) for network in networks]), rows)
    page.text(
        f"{networks[0].n:,} fresh sequences a set. Where a network has several checkpoints in the last tenth of its "
        "training, the number is the median over the last ten of them; 95 % intervals, over checkpoints and sequences, "
        "are in brackets. For classes of held-out pairs they are over the pairs of the class, whose number follows.",
        soft=True,
    )


def _with_interval(found: EndAccuracy | None) -> Cell:
    measured = achieved(found, over_pairs=found is not None and found.pairs is not None)
    if found is None or measured is None:  # a split without such a pair
        return Cell("none exists")
    tone = "good" if measured.low >= 0.95 else "bad" if measured.high < 0.9 else ""
    pairs = f", {found.pairs} pairs" if found.pairs else ""
    return Cell(f"{measured.value:.3f} [{measured.low:.3f}, {measured.high:.3f}]{pairs}", tone)


def _provenance(page: Page, networks: Sequence[Network], command: str) -> None:
    runs = runs_of(networks)
    facts = [_facts(run) for run in runs]
    keys = [key for key in dict.fromkeys(key for fact in facts for key in fact) if any(fact.get(key) for fact in facts)]
    page.table(("what", *[run.name for run in runs]), [[key, *[fact.get(key, "") for fact in facts]] for key in keys])
    names = " ".join(dict.fromkeys(run.name for run in runs))
    page.text(f"Made by `{command}`; the runs' own folders hold configuration, metrics and checkpoints.", soft=True)
    page.text(
        f"One claim again, with its rule and interval: `assignadd claims {names} --only ID`. The interactive page: "
        f"`assignadd explore {names} -o explorer`.",
        soft=True,
    )
    for run in runs:
        page.folded(f"Configuration of {run.name}", json.dumps(run.document, indent=2))


def _facts(run: Run) -> dict[str, str]:
    """What a run was made with: name and value of each fact."""
    made = run.provenance
    sources = made.pop("sources")
    steps = {"steps": f"{run.step:,}", "wall time": f"{run.wall_seconds / 60:.1f} min"}
    ends = zip(run.members, run.diverged_at, strict=True)
    diverged = ", ".join(f"seed {member.seed} at step {step:,}" for member, step in ends if step is not None)
    origin = {"imported from": f"{len(sources)} files, their sha256 in the run's manifest"} if sources else steps
    return {key: str(value) for key, value in made.items() if value is not None} | origin | {"diverged": diverged}


# What it begins with: the networks in a few words, links, five findings; and the verdicts of a section.

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
    if other := next((network for network in networks if not is_the_papers(network.config)), None):
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


def name_of(network: Network) -> str:
    return f"seed {network.seed} of {network.name}"


def _architecture(network: Network) -> str:
    model = network.config.model
    heads = "one head" if model.n_heads == 1 else f"{model.n_heads} heads"
    return f"{model.n_layers} layer{'s' * (model.n_layers > 1)} of {heads}"


def _summary(page: Page, networks: Sequence[Network]) -> None:
    learned = [network for network in networks if binds(network)]
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
        others = [network for network in networks if not binds(network)]
        names = ", ".join(name_of(network) for network in others)
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
