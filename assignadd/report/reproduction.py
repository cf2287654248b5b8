"""The reproduction page: the claims, the figures, what every seed learned, and where every number came from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from assignadd.config import ConfigError
from assignadd.dynamics.trajectory import binds, trajectory_of
from assignadd.figure.record import Absent, FigureRecord, Sources
from assignadd.ledger.claim import Record
from assignadd.measures.accuracies import Accuracy, end_accuracies_of
from assignadd.network import Network, runs_of
from assignadd.paper.addition.figures import COSINE_SIM_FIGURE, FOURIER_SHARES_FIGURE, PREACTS_FIGURE, PROBES_FIGURE
from assignadd.paper.binding.figures import ATTENTION_FIGURE, QK0_FIGURE, QK0POS_AND_QK1_FIGURE, TOKEN_SEQS_FIGURE
from assignadd.paper.causes.figures import CIRCUIT_ONLY_FIGURE, INTERCHANGE_FIGURE
from assignadd.paper.dynamics.figures import EARLY_FIGURE, LATE_FIGURE, PROGRESS_MEASURES_FIGURE
from assignadd.paper.generalisation.claims import achieved
from assignadd.paper.generalisation.figures import ACCURACIES_FIGURE, CENSUS_FIGURE, GENERALIZATION_FIGURE
from assignadd.paper.theory.figures import THEORY_BETA_FIGURE, THEORY_REAL_GRADIENT_FIGURE
from assignadd.report.beside import write_beside
from assignadd.report.claims_table import claims_table
from assignadd.report.first_screen import first_screen, names_of
from assignadd.report.page import Cell, Page, Picture, tag
from assignadd.runs import atomic
from assignadd.runs.files import claim_folder, folder_inside
from assignadd.runs.folder import Run
from assignadd.sweeps.population import Populations
from assignadd.task.evalsets import ALL_SETS
from assignadd.training.processes import in_background
from assignadd.user_file import with_line

# The suffixes of a figure's files: its data and pictures, to which the page links, and its caption.
SUFFIXES = (".npz", ".svg", ".png")
CAPTION = ".txt"
NOT_DRAWN = "it could not be drawn: "


@dataclass(frozen=True)
class Section:
    """A section of the page, with its figures."""

    heading: str
    figures: tuple[FigureRecord, ...]
    files: tuple[Path, ...] = ()
    """The user's files that state its figures, by their names; none for a section of ours."""


MECHANISM = (
    ATTENTION_FIGURE, TOKEN_SEQS_FIGURE, COSINE_SIM_FIGURE, PROBES_FIGURE, PREACTS_FIGURE, FOURIER_SHARES_FIGURE,
    QK0_FIGURE, QK0POS_AND_QK1_FIGURE,
)  # fmt: skip
CAUSES = (INTERCHANGE_FIGURE, CIRCUIT_ONLY_FIGURE)
DYNAMICS = (PROGRESS_MEASURES_FIGURE, EARLY_FIGURE, LATE_FIGURE)
POPULATIONS = (CENSUS_FIGURE, GENERALIZATION_FIGURE)
THEORY = (THEORY_BETA_FIGURE, THEORY_REAL_GRADIENT_FIGURE)
SECTIONS = (
    Section("The mechanism", MECHANISM),
    Section("Causes", CAUSES),
    Section("Training dynamics", DYNAMICS),
    Section("Populations of seeds", POPULATIONS),
    Section("The theory", THEORY),
)


def section_of_user(files: Sequence[Path], figures: Sequence[FigureRecord]) -> Section:
    """The section that a user's files add at the end; a ConfigError for a label that is taken or cannot name a file."""
    labels = {figure.label for section in SECTIONS for figure in section.figures}
    for figure in figures:
        # Labels that begin with `accuracies` are those of the curves of each network.
        if figure.label in labels or not re.fullmatch(r"(?!accuracies)[A-Za-z0-9][\w-]*", figure.label):
            expected = "letters, digits, - and _, and no label that the report has already"
            raise ConfigError("label", figure.label, expected)
        labels.add(figure.label)
    names = tuple(Path(file.name) for file in files)  # without folders, which are of this machine alone
    return Section(f"From {', '.join(map(str, names))}", tuple(figures), names)


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
    of_user: Section | None = None,
) -> Iterator[int]:
    """A context in which other processes draw every figure into `folder`/figures; yields the number of figures.

    If `processes` is one, the figures are drawn after the body of the `with`. For each figure there are files with the
    picture, its data and its caption. A figure without data, or one of the section `of_user` that fails, has the
    caption alone.
    """
    make_report_folder(folder)
    shown = _binding_first(networks)
    pictures = _pictures(shown, of_user)
    # Tables are read here, before processes are forked: Polars cannot be used in those.
    populations.load()
    trajectory_of(shown[0])

    def draw(picture: tuple[FigureRecord, Sequence[Network]]) -> None:
        """Writes the files of one figure, drawn for these networks."""
        figure, networks_shown = picture
        stem = _stem(figure.label, folder)
        try:
            data = figure.data_of(Sources(networks_shown, populations))
            if not isinstance(data, Absent):
                figure.save(data, stem)
        except Exception as error:
            if of_user is None or figure not in of_user.figures:
                raise
            data = Absent(f"{NOT_DRAWN}{with_line(error, *of_user.files)}")
        if isinstance(data, Absent):
            for suffix in SUFFIXES:  # of an earlier report in this folder
                atomic.discard(stem.with_suffix(suffix))
        atomic.write(stem.with_suffix(CAPTION), figure.caption(data).encode())

    with in_background(draw, pictures, processes):
        yield len(pictures)


def not_drawn(folder: Path, of_user: Section) -> list[str]:
    """Why figures of a user's files could not be drawn, a line for each; it stands in their captions."""
    captions = [_picture(figure, folder).look_for for figure in of_user.figures]
    return [caption.partition(NOT_DRAWN)[2].removesuffix(".") for caption in captions if NOT_DRAWN in caption]


def write_page(
    folder: Path,
    networks: Sequence[Network],
    records: Sequence[Record],
    command: str,
    of_user: Section | None = None,
) -> Path:
    """Writes `folder`/index.html and returns its path.

    The figures are already in the folder (`drawing_pictures`); `write_beside` adds the claims' `records` as files, and
    what to cite. `command` is the one that makes the page, `of_user` is the section that a user's files add.
    """
    shown = _binding_first(networks)
    page = Page(f"Report on {', '.join(run.name for run in runs_of(networks))}")
    # The interactive page, if `make explorer` or `assignadd explore` made it beside the report.
    explorer = "../explorer/index.html" if (folder.parent / "explorer" / "index.html").is_file() else None
    curves = [_picture(figure, folder) for figure, _ in _curve_pictures(shown)]
    sections = [(of.heading, [_picture(figure, folder) for figure in of.figures]) for of in _sections(of_user)]
    drawn = [picture for pictures in (curves, *(of for _, of in sections)) for picture in pictures if picture.svg]
    beside_answers = drawn[0] if drawn else None
    first_screen(page, shown, records, {picture.label for picture in drawn}, beside_answers, explorer)
    page.heading("Accuracy at the end")
    _add_final_table(page, shown)
    if curves[1:]:
        with page.folded(f"Accuracies during training of the other networks ({len(curves) - 1})", in_pairs=True):
            for picture in curves[1:]:
                page.add(picture.html())
    without_curves = [network for network in shown if len(network.rows) < 2]  # a row per evaluation
    if without_curves:
        reason = "they were imported, or evaluated only once in training"
        page.text(f"Networks without curves, as {reason}: {names_of(without_curves)}.", soft=True)
    for heading, pictures in sections:
        page.heading(heading)
        _add_pictures(page, [picture for picture in pictures if picture is not beside_answers])
    page.heading("Provenance and commands")
    _add_provenance(page, shown, command)
    page.heading("Every claim")
    claims_table(page, records, [figure.label for figure, _ in _pictures(shown, of_user)])
    index = folder / "index.html"
    write_beside(folder, records)
    atomic.write(index, page.html().encode())
    return index


def _add_pictures(page: Page, pictures: Sequence[Picture]) -> None:
    """Adds the figures of a section: the first that was drawn, if there is one, and the others folded."""
    drawn_first = sorted(pictures, key=lambda picture: picture.svg is None)
    others = drawn_first[1:]
    for picture in drawn_first[:1]:
        page.add(picture.html())
    if others:
        with page.folded(f"{len(others)} more: {'; '.join(picture.title for picture in others)}"):
            for picture in others:
                page.add(picture.html())


def _binding_first(networks: Sequence[Network]) -> list[Network]:
    """The networks that bind variables in the end, then the others; figures of one network show the first."""
    return sorted(networks, key=lambda network: not binds(network))


def _sections(of_user: Section | None) -> list[Section]:
    """The sections of the page: ours, and the one that a user's files add, if any."""
    return [*SECTIONS, *([of_user] if of_user else [])]


def _pictures(shown: Sequence[Network], of_user: Section | None) -> list[tuple[FigureRecord, Sequence[Network]]]:
    """All figures of the page, each with the networks that it is drawn for: one for curves, all for the others."""
    figures = [figure for section in _sections(of_user) for figure in section.figures]
    return _curve_pictures(shown) + [(figure, shown) for figure in figures]


def _curve_pictures(shown: Sequence[Network]) -> list[tuple[FigureRecord, Sequence[Network]]]:
    """The figure of accuracies during training, for every network that was evaluated more than once."""
    pictures: list[tuple[FigureRecord, Sequence[Network]]] = []
    for network in shown:
        if len(network.rows) > 1:  # a row per evaluation
            not_binding = "" if binds(network) else ", no binding in the end"
            title = f"Accuracies by evaluation set, {names_of([network])}{not_binding}"
            figure = replace(ACCURACIES_FIGURE, title=title)
            if pictures:
                label = f"accuracies{len(pictures) + 1}"
                figure = replace(figure, label=label, look_for="As above, for another network.")
            pictures.append((figure, [network]))
    return pictures


def _picture(figure: FigureRecord, folder: Path) -> Picture:
    """A figure as the page shows it, read from its files in the folder of the report."""
    stem = _stem(figure.label, folder)
    caption = stem.with_suffix(CAPTION).read_text(encoding="utf-8")
    svg = stem.with_suffix(".svg")
    if not svg.is_file():
        return Picture(figure.label, figure.title, caption)
    files = [f"figures/{figure.label}{suffix}" for suffix in SUFFIXES]
    return Picture(figure.label, figure.title, caption, svg, files)


def _stem(label: str, folder: Path) -> Path:
    """The path of a figure's files in the folder of a report, without their suffix."""
    return folder / "figures" / label


def _add_final_table(page: Page, networks: Sequence[Network]) -> None:
    """Adds a table of the accuracies at the end: a row for each evaluation set, a column for each network."""
    rows: list[list[str | Cell]] = []
    for evalset in ALL_SETS:
        accuracies = [end_accuracies_of(network).get(evalset.name) for network in networks]
        if any(accuracies):  # some network has sequences of this set; the others have None
            rows.append([evalset.label, *[_accuracy_cell(accuracy) for accuracy in accuracies]])
    several_runs = len(runs_of(networks)) > 1
    columns = [names_of([network]) if several_runs else f"seed {network.seed}" for network in networks]
    page.table(("set", *columns), rows)
    page.text(
        f"{networks[0].n:,} fresh sequences a set. Where a network has several checkpoints in the last tenth of its "
        "training, the number is the median over the last ten of them; 95 % intervals, over checkpoints and sequences, "
        "are in brackets. For classes of held-out pairs they are over the pairs of the class, whose number follows.",
        soft=True,
    )


def _accuracy_cell(accuracy: Accuracy | None) -> Cell:
    """An accuracy at the end with its interval: green if surely at least .95, red if surely below .9."""
    measured = achieved(accuracy, over_pairs=accuracy is not None and accuracy.pairs is not None)
    if accuracy is None or measured is None:  # the network's split has no pair of numbers of this kind
        return Cell("none exists")
    tone = ""
    if measured.low >= 0.95:
        tone = "good"
    elif measured.high < 0.9:
        tone = "bad"
    pairs = f"\n{accuracy.pairs} pairs" if accuracy.pairs else ""
    return Cell(f"{measured.value:.3f} [{measured.low:.3f}, {measured.high:.3f}]{pairs}", tone)


def _add_provenance(page: Page, networks: Sequence[Network], command: str) -> None:
    """Adds what the runs were made with (a column for each), the commands, and the runs' configurations."""
    runs = runs_of(networks)
    facts_of_runs = [_facts(run) for run in runs]
    names_of_facts = dict.fromkeys(name for facts in facts_of_runs for name in facts)  # each once, in order
    rows = [[name, *[facts.get(name, "") for facts in facts_of_runs]] for name in names_of_facts]
    page.table(("made with", *[run.name for run in runs]), rows)
    names = " ".join(dict.fromkeys(run.name for run in runs))
    page.text(
        f"Made by `{command}`. One claim again, with its rule and interval: `assignadd claims {names} --only ID`. The "
        f"interactive page: `assignadd explore {names} -o explorer`.",
        soft=True,
    )
    for run in runs:
        with page.folded(f"Configuration of {run.name}"):
            page.add(tag("pre", escape(json.dumps(run.document, indent=2)), tabindex="0"))


def _facts(run: Run) -> dict[str, str]:
    """How a run was made, by name and value: machine and versions, how long it trained or its source, what diverged."""
    facts = {name: str(value) for name, value in run.provenance.items() if name != "sources" and value is not None}
    if run.manifest.sources:
        facts["imported from"] = f"{len(run.manifest.sources)} files, their sha256 in the run's manifest"
    else:
        facts["steps"] = f"{run.step:,}"
        facts["wall time"] = f"{run.wall_seconds / 60:.1f} min"
    seeds_and_steps = zip(run.manifest.seeds, run.diverged_at, strict=True)
    diverged = [f"seed {seed} at step {step:,}" for seed, step in seeds_and_steps if step is not None]
    if diverged:
        facts["diverged"] = ", ".join(diverged)
    return facts
