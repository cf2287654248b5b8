"""What a reader of the report sees first: what was trained, which seeds bind, five questions with their answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assignadd.config import PRESETS, Config, Task
from assignadd.dynamics.phases import BINDING_SET, BINDING_THRESHOLD
from assignadd.dynamics.trajectory import binds
from assignadd.ledger.claim import Record, find
from assignadd.network import Network
from assignadd.report.beside import ARXIV, BESIDE
from assignadd.report.claims_table import TONES, count_verdicts, group
from assignadd.report.page import Answer, Page, Picture, number
from assignadd.stats import BROKEN, FAILS, HOLDS, NOT_APPLICABLE, SOME_SEEDS, UNDECIDED, UNMEASURED, UNTESTABLE
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


# The page begins with the first of these that could be tested, at most this many.
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
    Question(
        "Is the sum computed by the MLP?", "probe-after-mlp", ("probes",),
        "A linear probe after the MLP reads {share} of the answers.", "The paper says that such a probe succeeds.",
    ),
    Question(
        "Is one neuron nearly one wave?", "fourier-best-neuron", ("preacts",),
        "One frequency explains {share} of the variance of the best neuron.",
        "The paper says that the match is near perfect.",
    ),
    Question(
        "Is the theorem's memory its largest term?", "theory-memory-dominates", ("theory_beta",),
        "Another term of the theorem's step is {number} times as large.", "The paper says that it dominates.",
    ),
)  # fmt: skip
NO_BREAK = "\N{NO-BREAK SPACE}"
# The answer by the verdict of the claim.
WORDS = {HOLDS: "yes", FAILS: "no", UNDECIDED: "undecided"}
# Verdicts that decide nothing.
OPEN = (BROKEN, UNTESTABLE, NOT_APPLICABLE, UNMEASURED)


def answers(records: Sequence[Record], is_drawn: Callable[[str], bool]) -> list[Answer]:
    """The answers to the first five questions whose claims were decided; to others too, if these are fewer than five.

    They are in the order of QUESTIONS. `is_drawn` says whether the page has a picture with this label.
    """
    records_by_question: dict[Question, Record] = {}
    for question in QUESTIONS:
        record = find(records, question.claim)
        if record is not None:
            records_by_question[question] = record
    # Those decided come first.
    shown = sorted(records_by_question, key=lambda question: records_by_question[question].verdict in OPEN)[:SHOWN]
    return [
        _answer(question, record, is_drawn) for question, record in records_by_question.items() if question in shown
    ]


def _answer(question: Question, record: Record, is_drawn: Callable[[str], bool]) -> Answer:
    """The answer to a question, whose claim has this record."""
    counts = Counter(result.verdict for result in record.by_seed)
    verdict = group(record.verdict)
    if verdict == SOME_SEEDS:
        words = ", ".join(f"{counts[verdict]} {word}" for verdict, word in WORDS.items() if counts[verdict])
    else:
        words = WORDS.get(verdict, verdict)
    if record.value is None:
        text = record.claim
    else:
        text = question.measured.format(share=_shown(record, 100, " %"), number=_shown(record, 1, ""))
    return Answer(
        question.question, words, TONES.get(verdict, ""),
        f"{text} {question.paper.format(paper=record.paper)}".replace(" %", NO_BREAK + "%"),
        next(filter(is_drawn, question.figures), None),
        question.claim.partition(":")[0],
    )  # fmt: skip


def _shown(record: Record, scale: float, unit: str) -> str:
    """The number of a record, times `scale`, with its unit, and its interval if there is one."""
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
    is_drawn: Callable[[str], bool],
    beside: Picture | None = None,
    explorer: str | None = None,
) -> None:
    """Adds what a reader sees first: the networks in a few words, links, and five answers.

    Figures of one network show the first of `networks`. `is_drawn` says whether the page has a picture with this label,
    `beside` is the picture next to the answers, `explorer` is the address of the interactive page, if any.
    """
    _add_summary(page, networks)
    other_networks = [network for network in networks if not is_the_papers(network.config)]
    if other_networks:
        page.banner(
            "This is another task or network than the paper's. The thresholds of the claims are the paper's: a verdict "
            "says whether these networks pass them, not whether the paper is right."
        )
    page.heading("In short")
    if records:
        count_verdicts(page, records)
    page.answers(answers(records, is_drawn), beside)
    links = [("the paper", f"https://arxiv.org/abs/{ARXIV}")]
    if explorer is not None:
        links.append(("the interactive page", explorer))
    links += [(name, name) for name in BESIDE]
    page.text("See also:", links=links)


def is_the_papers(config: Config) -> bool:
    """Whether these are the paper's task, in either reading of its banned slots, and its network."""
    presets = (PRESETS["paper"], PRESETS["authors"])  # the two readings
    return any(config.task == preset.task and config.model == preset.model for preset in presets)


def _verb(task: Task) -> str:
    """The operation on the values in words, such as "to add mod 59"."""
    verb = task.operation if task.operation in ("add", "subtract", "multiply") else f"compute `{task.operation}`"
    return f"to {verb} mod {task.modulus}"


def _architecture(config: Config) -> str:
    """The size of a network in words, such as "2 layers of one head"."""
    model = config.model
    heads = "one head" if model.n_heads == 1 else f"{model.n_heads} heads"
    return f"{model.n_layers} layer{'s' * (model.n_layers > 1)} of {heads}, width {model.d_model}"


def names_of(networks: Sequence[Network]) -> str:
    """Networks by their seeds and runs, such as "seeds 0, 1 of tiny; seed 0 of other"."""
    seeds: dict[str, list[str]] = {}  # by the name of the run
    for network in networks:
        seeds.setdefault(network.name, []).append(str(network.seed))
    return "; ".join(f"seed{'s' * (len(of_run) > 1)} {', '.join(of_run)} of {name}" for name, of_run in seeds.items())


def _add_summary(page: Page, networks: Sequence[Network]) -> None:
    """Adds what was trained on what, and which of the networks bind variables."""
    config = networks[0].config
    example = examples.fitted(examples.ATTENTION, config.task)  # None if the task has no such sequence
    such_as = "" if example is None else f" such as `{render(example, config.task)}`"
    steps = " or ".join(f"{step:,}" for step in sorted({network.step for network in networks}))
    page.text(
        f"A transformer with {_architecture(config)}, is trained for {steps} steps on sequences{such_as}: to look "
        f"variables up and {_verb(config.task)}. It binds variables if in the end it is right on at least "
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
