"""The article: its numbers are those of the tables, none is typed, and the committed PDF was made from them."""

import json
import re

import polars
import pytest

from article import build

TEXT = build.TEXT.read_text()
PROSE = TEXT.partition("*Abstract.*")[2]
NUMBERS = json.loads(build.NUMBERS.read_text())
MEGABYTES = 2
DIGITS = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
# A function of the text whose first argument is an id.
TAKES_AN_ID = re.findall(r"^#let ([\w-]+)\(id\b", TEXT, re.MULTILINE)
IDS = set(re.findall(rf'\b(?:{"|".join(TAKES_AN_ID)})\(\s*"([^"]*)"', TEXT))

# Every number that the prose has in digits. No result is among them.
TYPED = """
    settings: 0.0001 0.0005 0.001 0.0015 0.002 0.004 0.02 0.05 0.1 0.8 0.83 1.5 8 9 10 12 20 24 30 32 59 64 74 90 128
        120 256 401 512 1,000 1,045 2,000 3,481 10,000 15,000 20,000 30,000 40,000 50,000
    numbers of settings, checkpoints and seeds that were chosen: 12 25 263
    rules: 0.71 0.9 0.175 0.225 0.98 10 80 90 95 98 99 100
    the paper's: 99.4 99.6 99.94 0.2 0.25 5,300 5,400; its checkpoint 30,001
    examples: 5 6 7 16 19 47 58 64
    names, such as seed 0, layer 1 and neuron 70, and minutes: 0 1 2 3 4 40 70
"""


def words_of_people(text):
    """The prose without what the program reads: code, ids, lengths, labels and references."""
    text = re.sub(r"//.*", "", text)
    text = re.sub(r"#let .*", "", text)
    text = re.sub(r"raw\(.*?\)", "", text)
    text = re.sub(
        r'"[^"]*"(, "[^"]*")*', lambda found: found[0] if " " in found[0] and "|" not in found[0] else "", text
    )
    text = re.sub(r"\b[\w-]+: *\(?[\d.]+(?:fr|em|pt|cm|%)?,?", "", text)  # digits: 2, width: 80%
    text = re.sub(r"\b\d*\.?\d+(?:fr|em|pt|cm)\b", "", text)
    return re.sub(r"@[\w-]+|<[\w-]+>|\b(?:OV|QK|MLP|C\.|TF|H)_?\d+", "", text)


def test_no_result_is_typed():
    found = set(DIGITS.findall(words_of_people(PROSE)))
    assert found <= set(DIGITS.findall(TYPED))
    assert len(found) > 40  # so many were read


def test_every_id_has_a_number_and_every_number_is_used():
    assert len(IDS) > 100 and len(TAKES_AN_ID) > 10
    assert NUMBERS.keys() == IDS


def test_the_numbers_are_those_of_the_tables():
    from_tables = build.from_tables(IDS)
    committed = {id: number for id, number in NUMBERS.items() if not build.is_measured(id)}
    assert_same({id: from_tables.get(id) for id in committed}, committed, "python article/build.py --collect")


@pytest.mark.slow
def test_the_measured_numbers_can_be_measured_again():
    committed = {id: number for id, number in NUMBERS.items() if build.is_measured(id)}
    measured = build.measured()
    assert_same({id: measured[id] for id in committed}, committed, "python article/build.py --collect", 0.01)


def test_seeds_that_gain_and_lose_are_counted_by_other_code():
    passes = "all test sets at the last step"
    table = polars.read_parquet(build.ROOT / "findings/end_of_training/end-of-training.parquet")
    wide = table.pivot(on="cell", index="seed", values=["binds", passes]).to_numpy().astype(int)  # seed, then 2 x 2
    wide = wide[wide[:, 1:3].all(axis=1)]
    change = wide[:, 4] - wide[:, 3]
    counted = {name: NUMBERS[f"counted | end of training, {name}"] for name in ("gained", "lost", "paired")}
    assert {number["n"] for number in counted.values()} == {len(wide)}
    assert counted["gained"]["value"] == pytest.approx((change > 0).mean(), abs=1e-5)
    assert counted["lost"]["value"] == pytest.approx((change < 0).mean(), abs=1e-5)
    half = 1.96 * change.std() / len(wide) ** 0.5
    assert counted["paired"]["low"] == pytest.approx(change.mean() - half, abs=1e-4)
    assert counted["paired"]["high"] == pytest.approx(change.mean() + half, abs=1e-4)


def assert_same(found, committed, remedy, tolerance=1e-5):
    """The same fields and words; numbers may differ by rounding."""
    for id, number in committed.items():
        assert found[id] is not None, f"{id} is gone"
        assert found[id].keys() == number.keys(), f"{id}: {remedy}"
        for name, value in number.items():
            same = pytest.approx(value, abs=tolerance) if isinstance(value, float) else value
            assert found[id][name] == same, f"{id}, {name}: {remedy}"


def test_the_committed_pdf_was_made_from_the_committed_text_and_numbers():
    pdf = build.PDF.read_bytes()
    assert f"inputs:{build.fingerprint()}".encode() in pdf, "make article"
    assert 8 <= n_pages(pdf) <= 10
    assert len(pdf) < MEGABYTES * 2**20


def test_it_can_be_built_and_comes_out_the_same(tmp_path):
    pytest.importorskip("typst", reason="typst is not installed, which sets the article")
    build.draw()
    first, second = tmp_path / "first.pdf", tmp_path / "second.pdf"
    build.typeset(first)
    build.typeset(second)
    assert first.read_bytes() == second.read_bytes()
    assert n_pages(first.read_bytes()) == n_pages(build.PDF.read_bytes())
    assert f"inputs:{build.fingerprint()}".encode() in first.read_bytes()


def test_an_unknown_id_stops_the_build(monkeypatch, tmp_path):
    typst = pytest.importorskip("typst", reason="typst is not installed, which sets the article")
    wrong = build.ARTICLE / "drawn" / "wrong.typ"
    wrong.parent.mkdir(exist_ok=True)
    start = TEXT.partition("// ---- verdicts")[0].replace('json("numbers.json")', 'json("/article/numbers.json")')
    wrong.write_text(start + '#percent("every-seed-bind")')
    monkeypatch.setattr(build, "TEXT", wrong)
    with pytest.raises(typst.TypstError, match="no number has the id every-seed-bind"):
        build.typeset(tmp_path / "wrong.pdf")
    wrong.unlink()


def n_pages(pdf):
    return len(re.findall(rb"/Type\s*/Page\b", pdf))
