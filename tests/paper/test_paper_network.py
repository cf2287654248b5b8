"""The shipped ledger of the paper's own network: complete, and what its checkpoints say where they are at hand."""

import re

import pytest

from assignadd.ledger.claim import find, judge, rule_in_words
from assignadd.network import networks_of
from assignadd.paper.ledger import CLAIMS, chosen_claims, paper_network
from assignadd.paper.theory.claims import LABEL as THEORY_LABEL
from assignadd.paper.theory.claims import TRAINING, paper_statements
from assignadd.paper.theory.theorem import Setting

ASKED = {c.id: c for c in CLAIMS if c.measure is not None}


def test_every_claim_about_one_network_is_there():
    """And the statements of the theory, which are those of any sizes."""
    theory = {r.id for r in paper_statements(Setting(N=13, T=10, V=4))} | {f"theory-{name}" for name in TRAINING}
    records = paper_network().records
    asked = ASKED.keys() | theory
    # A new claim is measured on the paper's network when its record is made again.
    assert {r.id for r in records} <= asked and len(records) > 0.9 * len(asked)
    assert len({r.id for r in records}) == len(records)
    lines = [line for r in records for line in (r, *r.readings)]
    assert all(line.low <= line.value <= line.high for line in lines)
    assert {line.verdict for line in lines} == {"holds", "does not hold", "undecided"}


@pytest.mark.parametrize("id", [id for id in ASKED if find(paper_network().records, id)])
def test_a_stored_record_has_the_sentences_and_rules_of_its_claim(id):
    """So that a claim that was changed is measured again."""
    record, claim = find(paper_network().records, id), ASKED[id]
    assert (record.label, record.claim, record.paper) == (claim.label, claim.claim, claim.paper)
    assert record.rule == rule_in_words(claim.rule) and record.checkpoints and record.seeds == 1
    assert [(r.id, r.says, r.rule) for r in record.readings] == [
        (r.id, r.says, rule_in_words(r.rule)) for r in claim.readings
    ]


def test_it_is_made_from_all_checkpoints():
    """Every 100 steps from 1 to 39,901, and the last one."""
    names = {f"checkpoint_step_{step}.pth" for step in range(1, 39_902, 100)} | {"model_state_dict.pth"}
    assert paper_network().sources.keys() == names and len(names) == 401
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in paper_network().sources.values())
    by_label = {r.label: r.checkpoints for r in paper_network().records}
    assert by_label["accuracies"] == "39,101 to 40,000 (10)" and by_label["early"] == "5,301 and 5,401"
    assert find(paper_network().records, "three-phases").checkpoints == "1 to 40,000 (401)"
    assert {r.checkpoints for r in paper_network().records if r.label == THEORY_LABEL and r.unit != "networks"} <= {
        "", "40,000"
    }  # fmt: skip


# What is measured at checkpoints that are among the eleven.
AT_THE_LAST = ("qk2-identity", "ov-mlp-99.94", "attn-l2-equal-to-values", "fourier-best-neuron", "mlp-prefers-doubles")
AT_THE_SPIKES = ("first-spike-margin", "first-spike-weakly-diagonal", "first-spike-attention",
                 "late-variable-qk1", "late-variable-fails")  # fmt: skip


def test_the_papers_checkpoints_say_so(paper_run):
    assert paper_run.manifest.sources.items() <= paper_network().sources.items()
    models, _ = networks_of(paper_run)
    for id in (*AT_THE_LAST, *AT_THE_SPIKES):
        found, stored = judge(*chosen_claims(id), models, ""), find(paper_network().records, id)
        assert (found.verdict, found.value) == (stored.verdict, pytest.approx(stored.value, abs=0.002)), id
