"""The shipped ledger of the paper's own network: complete, and what its checkpoints say where they are at hand."""

import json
from pathlib import Path

import pytest

import assignadd
from assignadd.claims.evidence import evidence
from assignadd.claims.ledger import CLAIMS, chosen, paper_network
from assignadd.claims.nameless import STUCK
from assignadd.claims.record import judge
from assignadd.measures.theory_gradient import CLAIMS as REAL

STORED = Path(assignadd.__file__).parent / "results" / "paper-network.json"


def test_every_claim_about_one_network_is_there():
    # It binds, so that claims on networks that do not are not about it.
    asked = {c.id for c in CLAIMS if c.measure is not None and c not in STUCK}
    assert set(paper_network()) == asked | {f"theory-{name.replace('_', '-')}" for name in REAL}
    assert all(r.low <= r.value <= r.high for r in paper_network().values())


def test_the_papers_checkpoints_say_so(paper_run):
    assert json.loads(STORED.read_text())["sources"] == paper_run.manifest.sources
    models, _ = evidence(paper_run)
    for id in ("qk2-identity", "ov-mlp-99.94", "attn-l2-equal-to-values", "held-out-doubles", "fourier-best-neuron"):
        found, stored = judge(*chosen(id), models, ""), paper_network()[id]
        assert (found.verdict, found.value) == (stored.verdict, pytest.approx(stored.value, abs=0.002)), id
