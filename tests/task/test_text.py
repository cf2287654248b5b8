"""Both text forms: examples, round trips, and where each error points."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from assignadd.config import PRESETS, Task
from assignadd.task.examples import padded
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split
from assignadd.task.text import ParseError, answer, operand_values, parse, render, render_tokens

PLUS, EQUALS, PAD, A = 59, 60, 61, 62  # the order of the tokens
B, C, F = A + 1, A + 2, A + 5


def test_the_text_form():
    tokens = parse("c=1, b=17, a=42, b+19=?")
    assert tokens == [*[PAD] * 6, C, 1, B, 17, A, 42, PLUS, B, 19, EQUALS]
    assert render(tokens, Task()) == "c=1, b=17, a=42, b+19=?"
    assert render_tokens(tokens, Task()) == ". . . . . . c 1 b 17 a 42 + b 19 ="
    assert operand_values(tokens, Task()) == (17, 19) and answer(tokens, Task()) == 36


def test_the_token_form():
    tokens = parse("c 1 . f 17 + f 19 =")
    assert tokens == [*[PAD] * 7, C, 1, PAD, F, 17, PLUS, F, 19, EQUALS]
    assert render(tokens, Task()) == "c=1, f=17, f+19=?"
    assert render_tokens(tokens, Task()) == ". . . . . . . c 1 . f 17 + f 19 ="


def test_the_sequence_of_the_papers_attention_figure():
    tokens = parse("PAD PAD PAD b 7 PAD e 5 PAD d 2 PAD + b 9 =")
    assert render_tokens(tokens, Task()) == ". . . b 7 . e 5 . d 2 . + b 9 =" and answer(tokens, Task()) == 16


@pytest.mark.parametrize(
    "text",
    [
        "a=58,b=3,a+b=?",
        "a=58,b=3,a+b=",
        " a = 58 , b = 3 , a + b = ? ",
        "a=58,\n\tb=3, a +b =?",
        "a 58 b 3 + a b =",
        "\ta 58\nb 3 + a b =",
    ],
)
def test_spaces_are_free_and_the_question_mark_is_optional(text):
    assert parse(text) == [*[PAD] * 8, A, 58, B, 3, PLUS, A, B, EQUALS]
    assert answer(parse(text), Task()) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=5, 58+58=?", 57),
        ("a=5, 58+a=?", 4),
        ("a=0, b=0, b+a=?", 0),
        ("c=7, 7+c=?", 14),
        ("c 7 + 7 7 =", 14),
        ("a 3 . b 4 + b a =", 7),
    ],
)
def test_answers_of_every_kind(text, expected):
    assert answer(parse(text), Task()) == expected


def test_a_full_token_form_is_kept_as_it_is():
    for text in (
        "a 1 b 2 c 3 d 4 e 5 f 6 + a f =",
        ". l 0 . . . . . . . . . + 3 l =",
        "l 0 . . . . . . . . . . + 3 3 =",
    ):
        assert render_tokens(parse(text), Task()) == text


def test_other_tasks_have_their_own_alphabet_and_length():
    task = Task(modulus=5, n_vars=2, max_assignments=2, length=9)
    assert parse("b=4, b+3=?", task) == [7, 7, 7, 9, 4, 5, 9, 3, 6]
    assert parse("b 4 . + b 3 =", task) == [7, 7, 9, 4, 7, 5, 9, 3, 6]
    assert answer(parse("b=4, b+3=?", task), task) == 2


ERRORS = [
    # text, column, a part of what is expected, what was got
    ("", 1, "a sequence such as a=1, a+0=?", "the end"),
    (" \n\t ", 1, "a sequence such as a=1, a+0=?", "the end"),
    # the text form
    ("c=1, b=77, b+1=?", 8, "a number from 0 to 58", "'77'"),
    ("c=1,b=77", 7, "a number from 0 to 58", "'77'"),
    ("c=-1, c+1=?", 3, "a number from 0 to 58", "'-'"),
    ("c=01, c+1=?", 3, "a number from 0 to 58", "'01'"),
    ("c=1.5, c+1=?", 4, "','", "'.'"),
    ("c=, c+1=?", 3, "a number from 0 to 58", "','"),
    ("c=d, c+1=?", 3, "a number from 0 to 58", "'d'"),
    ("c=" + "9" * 10_000 + ", c+1=?", 3, "a number from 0 to 58", "'99999999999999999999...'"),
    ("c=1, c+" + "9" * 10_000 + "=?", 8, "a number from 0 to 58", "'99999999999999999999...'"),
    ("m=1, m+1=?", 1, "a variable among abcdefghijkl", "'m'"),
    ("C=1, C+1=?", 1, "a variable among abcdefghijkl", "'C'"),
    ("cd=1, cd+1=?", 1, "a variable among abcdefghijkl", "'cd'"),
    ("é=1, é+1=?", 1, "a variable among abcdefghijkl", "'é'"),
    ("c=\uff11, c+1=?", 3, "a number from 0 to 58", "'\uff11'"),
    ("c=1, c+\u00b2=?", 8, "a number from 0 to 58", "'\u00b2'"),
    ("c=1, \u00b2+c=?", 6, "a number from 0 to 58", "'\u00b2'"),
    ("c=1, c\u2795\uff12=?", 7, "'+'", "'\u2795'"),
    ("c=1, b=2, c=3, c+b=?", 11, "a variable that is not assigned yet", "'c'"),
    ("a=1,b=2,c=3,d=4,e=5,f=6,g=7,a+b=?", 25, "the addition after at most 6 assignments", "'g'"),
    ("c=1, b+2=?", 6, "an assigned variable", "'b'"),
    ("c=1, 2+b=?", 8, "an assigned variable", "'b'"),
    ("c=1, b+b=?", 6, "an assigned variable", "'b'"),
    ("b=1, b+b=?", 8, "an assigned variable other than b", "'b'"),
    ("b+19=?", 1, "an assignment such as a=1 before the addition", "'b'"),
    ("3+19=?", 1, "an assignment such as a=1 before the addition", "'3'"),
    (", 3+19=?", 1, "a variable among", "','"),
    ("c=1", 4, "',' and then the addition", "the end"),
    ("c=1,  ", 5, "a variable among", "the end"),
    ("c=1 c+2=?", 5, "','", "'c'"),
    ("c=1; c+2=?", 4, "','", "';'"),
    ("c=1,, c+2=?", 5, "a variable among", "','"),
    ("c=1, c", 7, "'+'", "the end"),
    ("c=1, d", 7, "'='", "the end"),
    ("c=1, d17, c+2=?", 7, "'='", "'17'"),
    ("c=1, c17=?", 7, "'+'", "'17'"),
    ("c=1, 5=3", 6, "a variable among", "'5'"),
    ("c=1, 5", 7, "'+'", "the end"),
    ("c=1, c+=?", 8, "a number from 0 to 58 or an assigned variable", "'='"),
    ("c=1, c+2", 9, "'='", "the end"),
    ("c=1, c+2+3=?", 9, "'='", "'+'"),
    ("c=1, c-2=?", 7, "'+'", "'-'"),
    ("c=1, c+2=3", 10, "'?' or the end", "'3'"),
    ("c=1, c+2=?, d=4", 11, "nothing after the addition", "','"),
    ("c=1, c+2=??", 11, "nothing after the addition", "'?'"),
    ("__import__('os').system('x'), c+1=?", 1, "a variable among", "'_'"),
    # the token form
    ("hello", 1, "a variable among", "'hello'"),
    ("?", 1, "a variable among", "'?'"),
    ("c 77 + c 1 =", 3, "a number from 0 to 58", "'77'"),
    ("c . + c 1 =", 3, "a number from 0 to 58", "'.'"),
    ("c d 1 + c 1 =", 3, "a number from 0 to 58", "'d'"),
    ("1 c + c 1 =", 1, "a variable among", "'1'"),
    (". pad c 1 + c 1 =", 3, "a variable among", "'pad'"),
    ("c 1 c 2 + c 1 =", 5, "a variable that is not assigned yet", "'c'"),
    ("c 1 + d 1 =", 7, "an assigned variable", "'d'"),
    ("c 1 + 1 d =", 9, "an assigned variable", "'d'"),
    ("c 1 + c c =", 9, "an assigned variable other than c", "'c'"),
    ("c 1 + . c =", 7, "a number from 0 to 58 or an assigned variable", "'.'"),
    ("c 1 + + c =", 7, "a number from 0 to 58 or an assigned variable", "'+'"),
    ("+ 1 2 =", 1, "an assignment such as a 1 before the addition", "'+'"),
    (". . + 1 2 =", 5, "an assignment such as a 1 before the addition", "'+'"),
    ("c 1 .", 6, "a variable among", "the end"),
    ("c 1 + c", 8, "a number from 0 to 58 or an assigned variable", "the end"),
    ("c 1 + c 2  ", 10, "'='", "the end"),
    ("c 1 + c 2 = 3", 13, "nothing after the addition", "'3'"),
    ("c 1 + c 2 = ?", 13, "nothing after the addition", "'?'"),
    ("a 1 b 2 c 3 d 4 e 5 f 6 g 7 + a b =", 25, "the addition after at most 6 assignments", "'g'"),
    (". . . . . . . . . . . c 1 + c 2 =", 23, "'+' after at most 12 tokens", "'c'"),
    (". . . . . . . . . . c 1 . + c 2 =", 25, "'+' after at most 12 tokens", "'.'"),
    ("c 1 \x00 + c 2 =", 5, "a variable among", "'\\x00'"),
    ("c 1 \ud800 + c 2 =", 5, "a variable among", "'\\ud800'"),
]


@pytest.mark.parametrize(("text", "column", "expected", "got"), ERRORS, ids=[repr(text[:30]) for text, *_ in ERRORS])
def test_an_error_names_the_column_what_was_expected_and_what_was_found(text, column, expected, got):
    with pytest.raises(ParseError) as caught:
        parse(text)
    error = caught.value
    assert error.column == column
    assert expected in error.expected
    assert str(error) == f"column {column}: expected {error.expected}, got {got}"
    assert "\n" not in str(error) and isinstance(error, ValueError)


def test_the_message_in_full():
    with pytest.raises(ParseError, match=r"^column 7: expected a number from 0 to 58, got '77'$"):
        parse("c=1,b=77")


def test_limits_come_from_the_task():
    task = Task(modulus=5, n_vars=3, max_assignments=2, length=10)
    for text, column, expected in (
        ("a=5, a+1=?", 3, "a number from 0 to 4"),
        ("d=1, d+1=?", 1, "a variable among abc"),
        ("a=1, b=1, c=1, a+b=?", 11, "the addition after at most 2 assignments"),
        (". . . . . a 1 + a 1 =", 11, "'+' after at most 6 tokens"),
    ):
        with pytest.raises(ParseError) as caught:
            parse(text, task)
        assert (caught.value.column, caught.value.expected) == (column, expected)


def test_padding_by_seed_is_repeatable_and_keeps_the_text():
    text = "c=1, b=17, b+19=?"
    tokens = parse(text)
    layouts = {tuple(padded(tokens, Task(), seed)) for seed in range(50)}
    assert len(layouts) > 15
    assert {render(tokens, Task()) for tokens in layouts} == {text}
    assert padded(tokens, Task(), 3) == padded(tokens, Task(), 3) != tokens


def test_padding_by_seed_puts_pads_into_every_gap():
    gaps = np.zeros(3)
    for seed in range(500):
        tokens = padded(parse("c=1, b=17, b+19=?"), Task(), seed)
        at_c, at_b = tokens.index(C), tokens.index(B)
        gaps += [at_c, at_b - at_c - 2, 12 - at_b - 2]
    assert gaps.sum() == 4000 and stats.chisquare(gaps).pvalue > 1e-3


def test_a_full_prefix_has_no_pad_to_place():
    tokens = parse("a=1, b=2, c=3, d=4, e=5, f=6, a+f=?")
    assert padded(tokens, Task(), 0) == tokens


@pytest.mark.parametrize("preset", ["paper", "authors"])
def test_sampled_sequences_round_trip(preset):
    task = PRESETS[preset].task
    batch = Sampler([task], pair_split(task, 0)[None], [0]).sample(0, 200)
    for tokens, label in zip(batch.tokens[0].tolist(), batch.labels[0].tolist(), strict=True):
        assert parse(render_tokens(tokens, task), task) == tokens
        assert answer(tokens, task) == label
        text = render(tokens, task)
        assert render(parse(text, task), task) == text and answer(padded(parse(text, task), task, 1), task) == label


@st.composite
def sequences(draw):
    """A task and a sequence of it: {variable: value}, and the two operands as they are written."""
    V = draw(st.integers(1, 26))
    most = draw(st.integers(1, V))
    task = Task(
        modulus=draw(st.integers(2, 200)),
        n_vars=V,
        max_assignments=most,
        length=2 * most + 4 + draw(st.integers(0, 10)),
    )
    numbers = st.integers(0, task.modulus - 1)
    values = draw(st.dictionaries(st.sampled_from(task.variables), numbers, min_size=1, max_size=most))
    operand = st.sampled_from([*values]) | numbers.map(str)
    first = draw(operand)
    second = draw(operand.filter(lambda word: word != first or word.isdigit()))
    return task, values, first, second


@settings(max_examples=150, deadline=None, derandomize=True)
@given(sequences(), st.integers(0, 2**63 - 1), st.sampled_from(["", " ", "  \t"]))
def test_any_sequence_round_trips_in_both_forms(sequence, padding, space):
    task, values, first, second = sequence
    words = [w for v, n in values.items() for w in (v, "=", str(n), ",")] + [first, "+", second, "=", "?"]
    tokens = padded(parse(space.join(words), task), task, padding)
    assert len(tokens) == task.length
    assert render(tokens, task) == ", ".join(f"{v}={n}" for v, n in values.items()) + f", {first}+{second}=?"
    assert parse(render_tokens(tokens, task), task) == tokens
    assert answer(tokens, task) == sum(values[w] if w in values else int(w) for w in (first, second)) % task.modulus


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(max_size=40) | st.text(alphabet="abcm0159+=,.? PAD", max_size=40))
@example("c=1, c+2=?")
def test_any_text_is_parsed_or_raises_a_one_line_error(text):
    try:
        tokens = parse(text)
    except ParseError as error:
        assert 1 <= error.column <= len(text) + 1
        assert len(str(error).splitlines()) == 1 and str(error).startswith(f"column {error.column}: expected ")
    else:
        assert len(tokens) == 16 and parse(render_tokens(tokens, Task())) == tokens


def test_text_is_read_without_torch():
    code = "import sys; from assignadd.task.text import parse; parse('c=1, c+2=?'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
