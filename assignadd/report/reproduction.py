"""The reproduction page: the claims, the figures, what every seed learned, and where every number came from."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from assignadd.config import PRESETS, Config, ConfigError, Task
from assignadd.dynamics.phases import BINDING_SET, BINDING_THRESHOLD
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
from assignadd.paper.causes.figures import CIRCUIT_FIGURE, CIRCUIT_ONLY_FIGURE, INTERCHANGE_FIGURE
from assignadd.paper.dynamics.figures import EARLY_FIGURE, LATE_FIGURE, PROGRESS_MEASURES_FIGURE
from assignadd.paper.generalisation.claims import GENERALISATION, achieved
from assignadd.paper.generalisation.figures import ACCURACIES_FIGURE, CENSUS_FIGURE, GENERALIZATION_FIGURE
from assignadd.paper.generalisation.seeds import POPULATION
from assignadd.paper.ledger import DYNAMICS as DYNAMIC_CLAIMS
from assignadd.paper.theory.claims import LABEL as THEORY_LABEL
from assignadd.paper.theory.figures import THEORY_BETA_FIGURE, THEORY_REAL_GRADIENT_FIGURE
from assignadd.report.claims_table import claims_table, findings, verdicts_in_words
from assignadd.report.hub_folder import ARXIV
from assignadd.report.page import Cell, Page
from assignadd.runs import atomic
from assignadd.runs.files import claim_folder, folder_inside
from assignadd.runs.folder import Run
from assignadd.sweeps.population import Populations
from assignadd.task import examples
from assignadd.task.evalsets import ALL_SETS, LABELS
from assignadd.task.text import render
from assignadd.training.processes import in_background
from assignadd.user_file import with_line

# The files of a figure that the page links to, and the one that holds its caption.
SUFFIXES = (".npz", ".svg", ".png")
CAPTION = ".txt"
WIDE = 8.0  # inches; a wider figure would be too small to read in a column of text
TITLE = "Assign and Add, reproduced"


@dataclass(frozen=True)
class Section:
    """A section of the page: its figures, and which of the records of claims belong to it."""

    heading: str
    figures: tuple[FigureRecord, ...]
    has: Callable[[Record], bool]
    """Whether the record of a claim belongs to it."""
    of_one_model: bool = True
    """Whether its figures show one trained network, and not many seeds."""


def _one_of(*claims: Claim) -> Callable[[Record], bool]:
    """Whether a record is that of one of these claims, as a function of the record."""
    ids = {claim.id for claim in claims}
    return lambda record: record.id in ids


MECHANISM = (
    TOKEN_SEQS_FIGURE, ATTENTION_FIGURE, COSINE_SIM_FIGURE, PROBES_FIGURE, PREACTS_FIGURE, FOURIER_SHARES_FIGURE,
    QK0_FIGURE, QK0POS_AND_QK1_FIGURE,
)  # fmt: skip
CAUSES = (CIRCUIT_FIGURE, INTERCHANGE_FIGURE, CIRCUIT_ONLY_FIGURE)
DYNAMICS = (PROGRESS_MEASURES_FIGURE, EARLY_FIGURE, LATE_FIGURE)
POPULATIONS = (CENSUS_FIGURE, GENERALIZATION_FIGURE)
THEORY = (THEORY_BETA_FIGURE, THEORY_REAL_GRADIENT_FIGURE)
_is_causal = _one_of(*CAUSAL_CLAIMS)  # one of which is about the theorem too
SECTIONS = (
    Section("The mechanism", MECHANISM, _one_of(*GENERALISATION, *ADDITION, *MECHANISM_CLAIMS)),
    Section("Causes", CAUSES, _is_causal),
    Section("Training dynamics", DYNAMICS, _one_of(*DYNAMIC_CLAIMS)),
    Section("Populations of seeds", POPULATIONS, _one_of(*POPULATION), of_one_model=False),
    Section("The theory", THEORY, lambda record: record.label == THEORY_LABEL and not _is_causal(record)),
)


@dataclass(frozen=True)
class OwnSection(Section):
    """What a user's files add at the end: a figure that fails is a panel that says so, and the others are drawn."""

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
    page = Page(TITLE)
    # The interactive page, if `make explorer` or `assignadd explore` made it beside the report.
    explorer = "../explorer/index.html" if (folder.parent / "explorer" / "index.html").is_file() else None
    first_screen(page, networks, records, lambda label: _picture_file(folder, label), explorer)
    page.contents()
    page.heading("Accuracies during training")
    for figure, _ in _curve_pictures(shown):
        _add_picture(page, figure, folder, command)
    _name_those_without_curves(page, shown)
    page.heading("Accuracy at the end")
    _add_final_table(page, networks)
    for section in (*SECTIONS, *([own] if own else [])):
        page.heading(section.heading)
        verdicts_in_words(page, [record for record in records if section.has(record)])
        if section.of_one_model and section.figures:
            is_first = "the first that binds" if binds(shown[0]) else "although it does not bind"
            page.text(
                f"Drawn for {name_of(shown[0])} at step {shown[0].step:,}, {is_first} variables in the end; figures "
                "that compare networks show all of them. Every picture is also beside this page as SVG and PNG, with "
                "the arrays it was drawn from."
            )
        for figure in section.figures:
            _add_picture(page, figure, folder, command)
    page.heading("Provenance and commands")
    _add_provenance(page, networks, command)
    page.heading("Every claim")
    claims_table(page, records, [record.label for record, _ in _pictures(shown, own)])
    index = folder / "index.html"
    atomic.write(index, page.html().encode())
    return index


def name_of(network: Network) -> str:
    """What the page calls a network: its seed and its run."""
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


def _add_picture(page: Page, figure: FigureRecord, folder: Path, command: str) -> None:
    """Adds a figure, whose files are in `folder`, to the page; `command` is the one that makes it."""
    stem = _stem(figure.label, folder)
    page.picture(
        figure.label,
        figure.title,
        look_for=stem.with_suffix(CAPTION).read_text(encoding="utf-8"),
        svg=stem.with_suffix(".svg"),
        files=[f"figures/{figure.label}{suffix}" for suffix in SUFFIXES],
        caption=f"made by `{command}`",
        wide=figure.width > WIDE,
    )


def _stem(label: str, folder: Path) -> Path:
    """The path of a figure's files in the folder of a report, without their suffix."""
    return folder / "figures" / label


def _picture_file(folder: Path, label: str) -> Path | None:
    """The SVG file of a figure; None where it was not drawn, or there were no data for it."""
    stem = _stem(label, folder)
    if not stem.with_suffix(".npz").is_file():
        return None
    # Where there were no data, the file holds the fields of `Absent`, which gives the reason, instead.
    with np.load(stem.with_suffix(".npz"), allow_pickle=False) as arrays:
        is_absent = arrays.files == [field.name for field in fields(Absent)]
    return None if is_absent else stem.with_suffix(".svg")


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
        page.folded(f"Configuration of {run.name}", json.dumps(run.document, indent=2))


def _facts(run: Run) -> dict[str, str]:
    """What a run was made with: machine and versions, how long it trained or where it is from, what diverged."""
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


def first_screen(
    page: Page,
    networks: Sequence[Network],
    records: Sequence[Record],
    picture: Callable[[str], Path | None],
    explorer: str | None,
) -> None:
    """Adds what a reader sees first: the networks in a few words, links, and five findings.

    `picture` returns the file of the figure with a label, `explorer` is the address of the interactive page, if any.
    """
    _add_summary(page, networks)
    links = [
        ("the paper", f"https://arxiv.org/abs/{ARXIV}"),
        ("commands", "#section-provenance-and-commands"),
        ("every claim with its verdict", "#section-every-claim"),
    ]
    if explorer is not None:
        links.append(("the interactive page", explorer))
    page.text("See also:", links=links)
    other_networks = [network for network in networks if not is_the_papers(network.config)]
    if other_networks:
        config = other_networks[0].config
        page.banner(
            f"This page has another task or network than the paper's: {_verb(config.task)} with {config.task.n_vars} "
            f"variables in sequences of {config.task.length} tokens, and {_architecture(config)}, width "
            f"{config.model.d_model}. The thresholds of the claims are the paper's, for its own task and network: a "
            "verdict says whether a number of these networks passes that threshold, not whether the paper is right."
        )
    if cards := findings(records, picture):
        page.heading(f"{len(cards)} findings" if len(cards) > 1 else "One finding")
        page.cards(cards)


def is_the_papers(config: Config) -> bool:
    """Whether these are the paper's task, in either reading of its banned slots, and its network."""
    presets = (PRESETS["paper"], PRESETS["authors"])  # the two readings
    return any(config.task == preset.task and config.model == preset.model for preset in presets)


def _verb(task: Task) -> str:
    """What is done with the values, such as "to add mod 59"."""
    verb = task.operation if task.operation in ("add", "subtract", "multiply") else f"compute `{task.operation}`"
    return f"to {verb} mod {task.modulus}"


def _architecture(config: Config) -> str:
    """The size of a network in words, such as "2 layers of one head"."""
    model = config.model
    heads = "one head" if model.n_heads == 1 else f"{model.n_heads} heads"
    return f"{model.n_layers} layer{'s' * (model.n_layers > 1)} of {heads}"


def _add_summary(page: Page, networks: Sequence[Network]) -> None:
    """Adds what was trained on what, and how many of the networks bind variables in the end."""
    config = networks[0].config
    example = examples.fitted(examples.ATTENTION, config.task)  # None if the task has no such sequence
    such_as = "" if example is None else f" such as `{render(example, config.task)}`"
    not_binding = [name_of(network) for network in networks if not binds(network)]
    n_binding = len(networks) - len(not_binding)
    page.text(
        f"A transformer with {_architecture(config)} is trained on sequences{such_as}: to look variables up and "
        f"{_verb(config.task)}. This page was made from {len(networks)} trained networks; {n_binding} of them "
        f"{'binds' if n_binding == 1 else 'bind'} variables in the end (accuracy of at least {BINDING_THRESHOLD:.0%} "
        f"on sums with {LABELS[BINDING_SET]})."
    )
    if n_binding == 0:
        page.text("No network binds variables in the end. That is a result, not an error.")
    elif not_binding:
        page.text(
            f"{len(not_binding)} of {len(networks)} do not bind ({', '.join(not_binding)}): that is a result, not an "
            "error. Claims about binding cannot be tested on them and are judged on the others."
        )
