"""`assignadd report --with FILE.py`: a user's figures and claims in a section at the end."""

import re

import numpy as np
import pytest

from assignadd.cli import main
from assignadd.paper import ledger
from assignadd.report.reproduction import SECTIONS
from tests.report.writing import TWO_FIGURES, with_sections

FILE = """
from dataclasses import dataclass
import numpy as np
from assignadd.figure import FigureData, FigureRecord, Sources
from assignadd.ledger import AtLeast, Claim, Measured

@dataclass(frozen=True)
class Norms(FigureData):
    norms: np.ndarray

def norms(sources: Sources) -> Norms:
    return Norms(np.array([network.stack.W_E.norm().item() for network in sources.models]))

def draw(data, made):
    made.add_subplot().bar(["first", "second"], data.norms)

def fails(data, made):
    made.add_subplot().plot(data.norms / data.nothing)

def size(network):
    return Measured.exactly(network.stack.W_E.norm().item(), 1, "network")

NORMS = FigureRecord("norms", "Norms", "The norm of the embedding.", norms, draw, 2.0)
FIGURES = (NORMS,)
CLAIMS = (Claim.ours("large", "The embedding is not zero.", size, AtLeast(1), if_binding=False),)
"""
FAILING = FILE + 'FIGURES = (NORMS, FigureRecord("bad", "Bad", "Nothing.", norms, fails, 2.0))\n'


@pytest.fixture
def asked(report, tmp_path, monkeypatch):
    """Calls the command with these files; few of our figures and claims, which other tests make."""
    monkeypatch.setattr("assignadd.network.measure_ahead", lambda *_: None)
    monkeypatch.setattr(ledger, "theory_records", lambda networks: [])
    monkeypatch.setattr(ledger, "CLAIMS", ledger.CLAIMS[:1])

    def call(text, *more):
        (tmp_path / "mine.py").write_text(text)
        run = str(report.networks[0].run.path)
        words = [run, "--n", "50", "--with", str(tmp_path / "mine.py"), "-o", str(tmp_path / "out"), *more]
        with with_sections(TWO_FIGURES):
            return main(["report", *words, "--threads", "2"]), tmp_path / "out"

    return call


def test_figures_and_claims_have_a_section_at_the_end(asked):
    code, out = asked(FILE)
    html = (out / "index.html").read_text()
    headings = re.findall(r"<h2[^>]*>([^<]*)", html)
    place = headings.index("From mine.py")
    assert code == 0 and headings[place - 1] == SECTIONS[0].heading and place < headings.index("Every claim")
    assert html.index("The norm of the embedding.") > html.index("From mine.py")
    assert "The embedding is not zero." in html and "--with" in html
    with np.load(out / "figures/norms.npz") as arrays:
        assert arrays["norms"].shape == (2,) and (arrays["norms"] > 0).all()


def test_a_figure_that_fails_is_a_line_and_the_page_has_the_others(asked, capsys):
    code, out = asked(FAILING)
    said = capsys.readouterr().err.splitlines()[-1]
    assert code == 1 and re.match(
        r"assignadd: mine.py, line 18: AttributeError: .*nothing.*; the page has everything else", said
    )
    html = (out / "index.html").read_text()
    assert "it could not be drawn: mine.py, line 18" in html and (out / "figures/norms.svg").is_file()


@pytest.mark.parametrize(
    "text, says",
    [
        ("import nothing_there", r"mine.py, line 1: ModuleNotFoundError"),
        ("x = (\n", r"mine.py, line 1: SyntaxError"),
        ("x = 1", "expected CLAIMS, a tuple of assignadd.ledger.Claim"),
        ("FIGURES = [1]", "expected FIGURES, a tuple of assignadd.figure.FigureRecord"),
        (FILE.replace('"norms"', '"accuracies"'), "label = 'accuracies': expected letters"),
        (FILE.replace('"norms"', '"../norms"'), "label = '../norms': expected letters"),
        (FILE.replace('"large"', f'"{ledger.CLAIMS[0].id}"'), "give yours another id"),
    ],
)
def test_a_file_that_cannot_be_used_changes_nothing(asked, capsys, text, says):
    code, out = asked(text)
    error = capsys.readouterr().err
    assert code == 2 and re.search(says, error) and error.count("\n") == 1 and not out.exists()
