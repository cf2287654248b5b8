"""What a reader of the report sees first: what was trained, which seeds bind, five questions with their answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from assignadd.config import PRESETS, Config
from assignadd.dynamics.phases import BINDING_SET, BINDING_THRESHOLD
from assignadd.dynamics.trajectory import binds
from assignadd.ledger.claim import Record, find
from assignadd.network import Network
from assignadd.report.beside import ARXIV, BESIDE
from assignadd.report.claims_table import TONES, counted_verdicts, verdict_group
from assignadd.report.page import Page, Picture, marked, number, tag, verdict_label
from assignadd.stats import FAILS, HOLDS, SOME_SEEDS, UNDECIDED
from assignadd.task import examples
from assignadd.task.evalsets import LABELS
from assignadd.task.text import render


@dataclass(frozen=True)
class Question:
    """A question that the page may begin with, and where its answer is."""

    question: str
    claim: str
    """The id of the claim that answers it."""
    figures: tuple[str, ...]
    """Labels of figures; the page links to the first that was drawn."""
    measured: str
    """What was measured, as a sentence with `{share}` or `{number}` in it."""
    paper: str
    """What the paper says of it, as a sentence; it may have `{paper}`, the paper's number."""


# The page begins with the first of these that could be decided, at most this many.
SHOWN = 5
QUESTIONS = (
    Question(
        "Does it answer sums that it never saw?", "held-out-pairs-99.4", ("accuracies", "census"),
        "It is right on {share} of the sums of held-out pairs.", "The paper says {paper}.",
    ),
    Question(
        "Does = find the two numbers?", "attn-l2-equal-to-values", ("attention",),
        "In layer 2 `=` attends most to the two numbers in {share} of the sequences.",
        "The paper says that it does so consistently.",
    ),
    Question(
        "Does adding come before looking up?", "addition-first-train", ("progress_measures", "accuracies"),
        "Sums of literals are learned {number} steps before sums with variables.",
        "The paper says that addition comes first.",
    ),
    Question(
        "Does every seed learn to look up?", "every-seed-binds", ("census",),
        "Of the seeds of a census {share} do.", "The paper expects all to.",
    ),
    Question(
        "Does it answer held-out doubles n + n?", "held-out-pairs-99.4:doubles", ("accuracies",),
        "It is right on {share} of them.", "The paper does not report them.",
    ),
    Question(
        "Does a variable work in a slot new to it?", "new-positions-99.6", ("late", "accuracies"),
        "It is right on {share} of such sums with one variable.", "The paper says {paper}.",
    ),
)  # fmt: skip
NO_BREAK = "\N{NO-BREAK SPACE}"
ANOTHER_TASK = (
    "This is another task or network than the paper's. The thresholds of the claims are the paper's: a verdict says "
    "whether these networks pass them, not whether the paper is right."
)
# The answer by the verdict of the claim.
WORDS = {HOLDS: "yes", FAILS: "no", UNDECIDED: "undecided"}


def answers(records: Sequence[Record], drawn: Collection[str]) -> list[str]:
    """The answers to the first five questions whose claims were decided; if none was, to the first five. Each is HTML.

    `drawn` has the labels of the page's pictures.
    """
    decided: list[str] = []
    undecided: list[str] = []
    for question in QUESTIONS:
        record = find(records, question.claim)
        if record is not None:
            is_decided = verdict_group(record.verdict) in (*WORDS, SOME_SEEDS)
            answers_of_kind = decided if is_decided else undecided
            answers_of_kind.append(_answer(question, record, drawn))
    return (decided or undecided)[:SHOWN]


def _answer(question: Question, record: Record, drawn: Collection[str]) -> str:
    """A question with its answer, as HTML; `record` is that of its claim."""
    verdict = verdict_group(record.verdict)
    words = WORDS.get(verdict, verdict)
    if verdict == SOME_SEEDS:  # such as "2 yes, 1 no"
        counts = Counter(result.verdict for result in record.by_seed)
        words = ", ".join(f"{counts[outcome]} {word}" for outcome, word in WORDS.items() if counts[outcome])
    measured = record.claim
    if record.value is not None:
        measured = question.measured.format(share=_in_words(record, 100, " %"), number=_in_words(record, 1, ""))
    text = f"{measured} {question.paper.format(paper=record.paper)}".replace(" %", NO_BREAK + "%")
    links = [tag("a", "figure", href=f"#{label}") for label in question.figures if label in drawn][:1]
    claim = question.claim.partition(":")[0]  # without the reading
    links.append(tag("a", "how it was judged", href=f"#claim-{claim}"))
    heading = tag("h3", f"{marked(question.question)} {verdict_label(words, TONES.get(verdict, ''))}")
    return tag("li", heading + tag("p", f"{marked(text)} {tag('span', ', '.join(links), class_='soft')}"))


def _in_words(record: Record, scale: float, unit: str) -> str:
    """The value of a record times `scale`, with its unit; in brackets its interval and what it was counted on."""
    assert record.value is not None
    value = f"{number(scale * record.value, 3)}{unit}"
    about = []
    if record.low is not None and record.high is not None and record.low != record.high:
        about.append(f"{number(scale * record.low, 3)} to {number(scale * record.high, 3)}{unit}")
    if record.seeds > 1 and record.unit != "seeds":
        about.append(f"median of {record.seeds} seeds")
    if record.unit in ("pairs", "seeds"):
        about.append(record.sample)
    return f"{value} ({', '.join(about)})" if about else value


def first_screen(
    page: Page,
    networks: Sequence[Network],
    records: Sequence[Record],
    drawn: Collection[str],
    picture: Picture | None = None,
    explorer: str | None = None,
) -> None:
    """Adds what a reader sees first: the networks in a few words, links, and five answers.

    `drawn` has the labels of the page's pictures, `picture` is the one next to the answers, `explorer` is the address
    of the interactive page, if any.
    """
    _add_summary(page, networks)
    if not all(is_the_papers(network.config) for network in networks):
        page.add(tag("p", ANOTHER_TASK, class_="banner", role="note"))
    page.heading("In short")
    if records:
        page.add(counted_verdicts(records))
    opening = tag("ul", "".join(answers(records, drawn)), class_="answers") + (picture.html() if picture else "")
    page.add(tag("div", opening, class_="opening"))
    links = [tag("a", "the paper", href=f"https://arxiv.org/abs/{ARXIV}")]
    links += [tag("a", "the interactive page", href=explorer)] if explorer else []
    links += [tag("a", name, href=name) for name in BESIDE]
    page.add(tag("p", f"See also: {'; '.join(links)}."))


def is_the_papers(config: Config) -> bool:
    """Whether these are the paper's task, in either reading of its banned slots, and its network."""
    presets = (PRESETS["paper"], PRESETS["authors"])  # the two readings
    return any(config.task == preset.task and config.model == preset.model for preset in presets)


def names_of(networks: Sequence[Network]) -> str:
    """Networks by their seeds and runs, such as "seeds 0, 1 of tiny; seed 0 of other"."""
    seeds_of_runs: dict[str, list[str]] = {}  # by the name of the run
    for network in networks:
        seeds_of_runs.setdefault(network.name, []).append(str(network.seed))
    texts = [f"seed{'s' * (len(seeds) > 1)} {', '.join(seeds)} of {name}" for name, seeds in seeds_of_runs.items()]
    return "; ".join(texts)


def _add_summary(page: Page, networks: Sequence[Network]) -> None:
    """Adds what was trained on what, and which of the networks bind variables."""
    task, model = networks[0].config.task, networks[0].config.model
    size = f"layers: {model.n_layers}, heads in each: {model.n_heads}, width: {model.d_model}"
    example = examples.fitted(examples.ATTENTION, task)  # None if the task has no such sequence
    such_as = "" if example is None else f" such as `{render(example, task)}`"
    is_verb = task.operation in ("add", "subtract", "multiply")
    to_answer = task.operation if is_verb else f"compute `{task.operation}`"
    steps = " or ".join(f"{step:,}" for step in sorted({network.step for network in networks}))
    page.text(
        f"A transformer ({size}) is trained for {steps} steps on sequences{such_as}: to look variables up and to "
        f"{to_answer} mod {task.modulus}. It binds variables if in the end it is right on at least "
        f"{100 * BINDING_THRESHOLD:.0f} % of the sums with {LABELS[BINDING_SET]}."
    )
    binding = [network for network in networks if binds(network)]
    others = [network for network in networks if not binds(network)]
    if len(networks) == 1:
        said = f"The network of this page, {names_of(networks)}, {'binds' if binding else 'does not bind'} variables."
    else:
        verb = "binds" if len(binding) == 1 else "bind"
        said = f"{len(binding)} of {len(networks)} networks {verb} variables"
        said += f": {names_of(binding)}." if binding else "."
    if others and binding:
        said += f" Claims about binding cannot be tested on the others: {names_of(others)}."
    elif others:
        said += " That is a result, not an error; claims about binding cannot be tested."
    if len(networks) > 1:
        said += f" Figures of one network show {names_of(networks[:1])}."
    page.text(said)
