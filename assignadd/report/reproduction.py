"""The reproduction page: the claims, the figures, what every seed learned, and where every number came from."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from assignadd.config import ConfigError
from assignadd.dynamics.trajectory import binds, trajectory_of
from assignadd.figure.record import NOT_DRAWN, Absent, Failed, FigureData, FigureRecord, Sources
from assignadd.ledger.claim import Claim, Record
from assignadd.measures.accuracies import EndAccuracy, end_accuracies_of
from assignadd.network import Network, runs_of
from assignadd.paper.addition.claims import ADDITION
from assignadd.paper.addition.figures import COSINE_SIM_FIGURE, FOURIER_SHARES_FIGURE, PREACTS_FIGURE, PROBES_FIGURE
from assignadd.paper.binding.claims import MECHANISM as MECHANISM_CLAIMS
from assignadd.paper.binding.figures import ATTENTION_FIGURE, QK0_FIGURE, QK0POS_AND_QK1_FIGURE, TOKEN_SEQS_FIGURE
from assignadd.paper.causes.claims import CAUSES as CAUSAL_CLAIMS
from assignadd.paper.causes.figures import CIRCUIT_ONLY_FIGURE, INTERCHANGE_FIGURE
from assignadd.paper.dynamics.figures import EARLY_FIGURE, LATE_FIGURE, PROGRESS_MEASURES_FIGURE
from assignadd.paper.generalisation.claims import GENERALISATION, achieved
from assignadd.paper.generalisation.figures import ACCURACIES_FIGURE, CENSUS_FIGURE, GENERALIZATION_FIGURE
from assignadd.paper.generalisation.seeds import POPULATION
from assignadd.paper.ledger import DYNAMICS as DYNAMIC_CLAIMS
from assignadd.paper.theory.claims import LABEL as THEORY_LABEL
from assignadd.paper.theory.figures import THEORY_BETA_FIGURE, THEORY_REAL_GRADIENT_FIGURE
from assignadd.report.beside import write_beside
from assignadd.report.claims_table import claims_table, count_verdicts, list_refuted
from assignadd.report.first_screen import first_screen
from assignadd.report.page import Cell, Page, Picture
from assignadd.runs import atomic
from assignadd.runs.files import claim_folder, folder_inside
from assignadd.runs.folder import Run
from assignadd.sweeps.population import Populations
from assignadd.task.evalsets import ALL_SETS
from assignadd.training.processes import in_background
from assignadd.user_file import with_line

# The files of a figure that the page links to, and the one that holds its caption.
SUFFIXES = (".npz", ".svg", ".png")
CAPTION = ".txt"


@dataclass(frozen=True)
class Section:
    """A section of the page: its figures, and which of the records of claims belong to it."""

    heading: str
    figures: tuple[FigureRecord, ...]
    has: Callable[[Record], bool]
    """Whether the record of a claim belongs to it."""


def _one_of(*claims: Claim) -> Callable[[Record], bool]:
    """A function that says whether a record is that of one of these claims."""
    ids = {claim.id for claim in claims}
    return lambda record: record.id in ids


MECHANISM = (
    ATTENTION_FIGURE, TOKEN_SEQS_FIGURE, COSINE_SIM_FIGURE, PROBES_FIGURE, PREACTS_FIGURE, FOURIER_SHARES_FIGURE,
    QK0_FIGURE, QK0POS_AND_QK1_FIGURE,
)  # fmt: skip
CAUSES = (INTERCHANGE_FIGURE, CIRCUIT_ONLY_FIGURE)
DYNAMICS = (PROGRESS_MEASURES_FIGURE, EARLY_FIGURE, LATE_FIGURE)
POPULATIONS = (CENSUS_FIGURE, GENERALIZATION_FIGURE)
THEORY = (THEORY_BETA_FIGURE, THEORY_REAL_GRADIENT_FIGURE)
_is_causal = _one_of(*CAUSAL_CLAIMS)  # one of which is about the theorem too
SECTIONS = (
    Section("The mechanism", MECHANISM, _one_of(*GENERALISATION, *ADDITION, *MECHANISM_CLAIMS)),
    Section("Causes", CAUSES, _is_causal),
    Section("Training dynamics", DYNAMICS, _one_of(*DYNAMIC_CLAIMS)),
    Section("Populations of seeds", POPULATIONS, _one_of(*POPULATION)),
    Section("The theory", THEORY, lambda record: record.label == THEORY_LABEL and not _is_causal(record)),
)


@dataclass(frozen=True)
class OwnSection(Section):
    """The section that a user's files add at the end; instead of a figure that fails, a panel says so."""

    files: tuple[Path, ...] = ()
    claims: tuple[Claim, ...] = ()


def own_section(
    files: Sequence[Path], stated: Sequence[tuple[tuple[Claim, ...], tuple[FigureRecord, ...]]]
) -> OwnSection:
    """The section of what a user's files state: of each file its claims and its figures, whose labels are checked."""
    claims = tuple(claim for of_file, _ in stated for claim in of_file)
    figures = tuple(figure for _, of_file in stated for figure in of_file)
    known = {record.label for section in SECTIONS for record in section.figures}
    for record in figures:
        # Labels that begin with `accuracies` are those of the curves of each network.
        if record.label in known or not re.fullmatch(r"(?!accuracies)[A-Za-z0-9][\w-]*", record.label):
            expected = "letters, digits, - and _, and no label that the report has already"
            raise ConfigError("label", record.label, expected)
        known.add(record.label)
    names = tuple(Path(file.name) for file in files)  # without folders, which are of this machine alone
    return OwnSection(f"From {', '.join(map(str, names))}", figures, _one_of(*claims), files=names, claims=claims)


def make_report_folder(folder: Path) -> None:
    """Makes the folder of a report and of its figures, and refuses one that holds anything but a report."""
    claim_folder(folder, "report")
    folder_inside(folder, "figures")


@contextmanager
def drawing_pictures(
    folder: Path,
    networks: Sequence[Network],
    populations: Populations,
    processes: int = 1,
    own: OwnSection | None = None,
) -> Iterator[int]:
    """Draws every figure into `folder`/figures while the body of the `with` runs; yields the number of figures.

    Other processes draw them; if `processes` is one, they are drawn after the body. For each figure there are files
    with the picture, its data and its caption.
    """
    make_report_folder(folder)
    shown = _binding_first(networks)
    pictures = _pictures(shown, own)
    # Tables are read here, before processes are forked: Polars cannot be used in those.
    populations.load()
    trajectory_of(shown[0])

    def draw(picture: tuple[FigureRecord, Sequence[Network]]) -> None:
        """Writes the files of one figure, drawn for these networks."""
        record, networks_shown = picture
        stem = _stem(record.label, folder)
        data: FigureData
        try:
            data = record.data_of(Sources(networks_shown, populations))
            record.save(data, stem)
        except Exception as error:
            if own is None or record not in own.figures:
                raise
            data = Failed(with_line(error, *own.files))
            record.save(data, stem)
        atomic.write(stem.with_suffix(CAPTION), record.caption(data).encode())

    with in_background(draw, pictures, processes):
        yield len(pictures)


def not_drawn(folder: Path, own: OwnSection) -> list[str]:
    """Why figures of a user's files could not be drawn, a line for each."""
    captions = [_stem(record.label, folder).with_suffix(CAPTION).read_text(encoding="utf-8") for record in own.figures]
    return [caption.rpartition(NOT_DRAWN)[2] for caption in captions if NOT_DRAWN in caption]


def write_page(
    folder: Path,
    networks: Sequence[Network],
    records: Sequence[Record],
    command: str,
    own: OwnSection | None = None,
) -> Path:
    """Writes `folder`/index.html and returns its path.

    The figures are already in the folder (`drawing_pictures`); `command` is the one that makes the page.
    """
    shown = _binding_first(networks)
    page = Page(f"Report on {', '.join(run.name for run in runs_of(networks))}")
    # The interactive page, if `make explorer` or `assignadd explore` made it beside the report.
    explorer = "../explorer/index.html" if (folder.parent / "explorer" / "index.html").is_file() else None
    curves = [_picture(figure, folder) for figure, _ in _curve_pictures(shown)]
    first_screen(page, shown, records, lambda label: _is_drawn(folder, label), curves[0] if curves else None, explorer)
    page.heading("Accuracy at the end")
    _add_final_table(page, shown)
    if curves[1:]:
        with page.folded(f"Accuracies during training of the other networks ({len(curves) - 1})", in_pairs=True):
            for picture in curves[1:]:
                page.picture(picture)
    _name_those_without_curves(page, shown)
    for section in (*SECTIONS, *([own] if own else [])):
        page.heading(section.heading)
        of_section = [record for record in records if section.has(record)]
        if of_section:
            count_verdicts(page, of_section)
            list_refuted(page, of_section)
        _add_pictures(page, [_picture(figure, folder) for figure in section.figures])
    page.heading("Provenance and commands")
    _add_provenance(page, shown, command)
    page.heading("Every claim")
    claims_table(page, records, [record.label for record, _ in _pictures(shown, own)])
    index = folder / "index.html"
    write_beside(folder, records)
    atomic.write(index, page.html().encode())
    return index


def _add_pictures(page: Page, pictures: Sequence[Picture]) -> None:
    """Adds the figures of a section: the first that was drawn, and the others folded."""
    first = next((picture for picture in pictures if picture.svg is not None), None)
    if first is None:  # of none there are data
        for picture in pictures:
            page.picture(picture)
        return
    page.picture(first)
    others = [picture for picture in pictures if picture is not first]
    if others:
        with page.folded(f"{len(others)} more: {'; '.join(picture.title for picture in others)}"):
            for picture in others:
                page.picture(picture)


def name_of(network: Network) -> str:
    """The name of a network on the page: its seed and its run."""
    return f"seed {network.seed} of {network.name}"


def _binding_first(networks: Sequence[Network]) -> list[Network]:
    """The networks that bind variables in the end, then the others; figures of one network show the first."""
    return sorted(networks, key=lambda network: not binds(network))


def _pictures(shown: Sequence[Network], own: OwnSection | None) -> list[tuple[FigureRecord, Sequence[Network]]]:
    """All figures of the page, each with the networks that it is drawn for."""
    pictures = _curve_pictures(shown)
    for section in (*SECTIONS, *([own] if own else [])):
        pictures += [(figure, shown) for figure in section.figures]
    return pictures


def _curve_pictures(shown: Sequence[Network]) -> list[tuple[FigureRecord, Sequence[Network]]]:
    """The paper's figure of accuracies during training, once for every network that was evaluated more than once.

    The labels are accuracies, accuracies2, accuracies3 and so on.
    """
    pictures: list[tuple[FigureRecord, Sequence[Network]]] = []
    for network in shown:
        if len(network.rows) > 1:
            not_binding = "" if binds(network) else ", no binding in the end"
            title = f"Accuracies by evaluation set, {name_of(network)}{not_binding}"
            figure = replace(ACCURACIES_FIGURE, title=title)
            if pictures:
                label = f"accuracies{len(pictures) + 1}"
                figure = replace(figure, label=label, look_for="As above, for another network.")
            pictures.append((figure, [network]))
    return pictures


def _name_those_without_curves(page: Page, shown: Sequence[Network]) -> None:
    """Says which networks have no figure of accuracies during training, and why."""
    for n_evaluations, reason in (
        (1, "evaluated once in training"),
        (0, "imported, without a record of their training"),
    ):
        names = ", ".join(name_of(network) for network in shown if len(network.rows) == n_evaluations)
        if names:
            page.text(f"Networks without curves, as they were {reason}: {names}.", soft=True)


def _picture(figure: FigureRecord, folder: Path) -> Picture:
    """A figure as the page shows it; its files are in `folder`."""
    stem = _stem(figure.label, folder)
    is_drawn = _is_drawn(folder, figure.label)
    return Picture(
        figure.label,
        figure.title,
        look_for=stem.with_suffix(CAPTION).read_text(encoding="utf-8"),
        svg=stem.with_suffix(".svg") if is_drawn else None,
        files=[f"figures/{figure.label}{suffix}" for suffix in SUFFIXES] if is_drawn else (),
    )


def _stem(label: str, folder: Path) -> Path:
    """The path of a figure's files in the folder of a report, without their suffix."""
    return folder / "figures" / label


def _is_drawn(folder: Path, label: str) -> bool:
    """Whether a figure was drawn, and there were data for it."""
    archive = _stem(label, folder).with_suffix(".npz")
    if not archive.is_file():
        return False
    # Where there were no data, the file holds the fields of `Absent`, which gives the reason, instead.
    with np.load(archive, allow_pickle=False) as arrays:
        return arrays.files != [field.name for field in fields(Absent)]


def _add_final_table(page: Page, networks: Sequence[Network]) -> None:
    """Adds a table of the accuracies at the end: a row for each evaluation set, a column for each network."""
    rows: list[list[str | Cell]] = []
    for evalset in ALL_SETS:
        accuracies = [end_accuracies_of(network).get(evalset.name) for network in networks]
        if any(accuracies):
            rows.append([evalset.label, *[_accuracy_cell(accuracy) for accuracy in accuracies]])
    page.table(("set", *[name_of(network) for network in networks]), rows)
    page.text(
        f"{networks[0].n:,} fresh sequences a set. Where a network has several checkpoints in the last tenth of its "
        "training, the number is the median over the last ten of them; 95 % intervals, over checkpoints and sequences, "
        "are in brackets. For classes of held-out pairs they are over the pairs of the class, whose number follows.",
        soft=True,
    )


def _accuracy_cell(accuracy: EndAccuracy | None) -> Cell:
    """An accuracy at the end with its interval: green if surely at least .95, red if surely below .9."""
    measured = achieved(accuracy, over_pairs=accuracy is not None and accuracy.pairs is not None)
    if accuracy is None or measured is None:  # the network's split has no pair of numbers of this kind
        return Cell("none exists")
    tone = ""
    if measured.low >= 0.95:
        tone = "good"
    elif measured.high < 0.9:
        tone = "bad"
    pairs = f", {accuracy.pairs} pairs" if accuracy.pairs else ""
    return Cell(f"{measured.value:.3f} [{measured.low:.3f}, {measured.high:.3f}]{pairs}", tone)


def _add_provenance(page: Page, networks: Sequence[Network], command: str) -> None:
    """Adds what the runs were made with (a column for each), the commands, and the runs' configurations."""
    runs = runs_of(networks)
    facts_of_runs = [_facts(run) for run in runs]
    rows = []
    for name in dict.fromkeys(name for facts in facts_of_runs for name in facts):  # each once, in order
        values = [facts.get(name, "") for facts in facts_of_runs]
        if any(values):
            rows.append([name, *values])
    page.table(("what", *[run.name for run in runs]), rows)
    names = " ".join(dict.fromkeys(run.name for run in runs))
    page.text(f"Made by `{command}`; the runs' own folders hold configuration, metrics and checkpoints.", soft=True)
    page.text(
        f"One claim again, with its rule and interval: `assignadd claims {names} --only ID`. The interactive page: "
        f"`assignadd explore {names} -o explorer`.",
        soft=True,
    )
    for run in runs:
        with page.folded(f"Configuration of {run.name}"):
            page.plain(json.dumps(run.document, indent=2))


def _facts(run: Run) -> dict[str, str]:
    """How a run was made: machine and versions, how long it trained or where it is from, what diverged."""
    facts = {name: str(value) for name, value in run.provenance.items() if name != "sources" and value is not None}
    sources = run.provenance["sources"]
    if sources:
        facts["imported from"] = f"{len(sources)} files, their sha256 in the run's manifest"
    else:
        facts["steps"] = f"{run.step:,}"
        facts["wall time"] = f"{run.wall_seconds / 60:.1f} min"
    diverged = [
        f"seed {member.seed} at step {step:,}"
        for member, step in zip(run.members, run.diverged_at, strict=True)
        if step is not None
    ]
    facts["diverged"] = ", ".join(diverged)
    return facts
