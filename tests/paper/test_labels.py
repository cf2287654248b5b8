"""Every place in the paper that a claim names is in the paper."""

import re
from pathlib import Path

import pytest

from assignadd.paper.ledger import CLAIMS
from assignadd.paper.theory.claims import LABEL as THEORY_LABEL

TEX = Path(__file__).parents[3] / "shared" / "paper" / "assign-and-add.tex"
# Numbers that the paper gives in its text alone, by a name of ours; the sentence must be there.
IN_THE_TEXT = {
    "ov-mlp": "achieves a $99.94\\%$ accuracy",
    "probes": "linear probes trained on the model's internal activations",
}
SECTIONS = ["Introduction", "Background", "Setup", "Generalization Results", "Emergent Mechanisms and Compositionality",
            "Analyzing Training Dynamics with Progress Measures", "Theoretical Insights on Training Dynamics",
            "Conclusion"]  # fmt: skip
SUBSECTIONS = {"section 5.1": "Modular addition with the OV-MLP Circuit",
               "section 5.2": "Variable Assignment via Induction Head"}  # fmt: skip


@pytest.mark.skipif(not TEX.exists(), reason="needs the paper's text beside the checkout")
def test_every_label_exists_in_the_paper():
    text = TEX.read_text()
    assert re.findall(r"^\\section\{([^}]*)\}", text, re.MULTILINE)[: len(SECTIONS)] == SECTIONS
    parts = re.split(r"^\\section\{[^}]*\}", text, flags=re.MULTILINE)[1:]  # the text of each section
    numbered = {
        f"section {i}.{j}": name
        for i, part in enumerate(parts[: len(SECTIONS)], 1)
        for j, name in enumerate(re.findall(r"^\\subsection\{([^}]*)\}", part, re.MULTILINE), 1)
    }
    assert {label: numbered.get(label) for label in SUBSECTIONS} == SUBSECTIONS
    labels = set(re.findall(r"\\label\{(?:fig:)?([^}]*)\}", text))
    for label in {c.label for c in CLAIMS} | {THEORY_LABEL}:
        section = re.fullmatch(r"section (\d)", label)
        assert (
            label in labels | SUBSECTIONS.keys()
            or (section and 1 <= int(section[1]) <= len(SECTIONS))
            or IN_THE_TEXT.get(label, "no such sentence") in text
        ), label


def test_claims_of_the_text_name_the_section_they_are_in():
    by_id = {c.id: c.label for c in CLAIMS}
    expected = {
        "held-out-pairs-99.4": "section 4",
        "new-positions-99.6": "section 4",
        "no-first-mlp": "section 3",
        "every-seed-binds": "section 3",
    }
    assert {id: by_id[id] for id in expected} == expected
