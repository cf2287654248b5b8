"""The ledger on networks whose answers are known: the hand-made one, a random one, the paper's own."""

import pytest

from assignadd.claims.causes import ALIGNMENT, CAUSES, INTERCHANGE
from assignadd.claims.evidence import Evidence, evidence
from assignadd.claims.ledger import CLAIMS, DYNAMICS, chosen
from assignadd.claims.look_up import CUES
from assignadd.claims.nameless import STUCK
from assignadd.claims.record import judge
from assignadd.config import PRESETS, ConfigError, Member
from assignadd.measures.accuracies import pair_accuracy
from assignadd.model.handmade import handmade
from assignadd.model.stack import initial_stack
from assignadd.runs.folder import Run, shipped
from assignadd.task.splits import pair_split
from assignadd.verdicts import FAILS, HOLDS, UNDECIDED, UNTESTABLE

SIX = shipped("census-six")
# What needs a run, and what has tests of its own.
ELSEWHERE = {c.id for c in (*DYNAMICS, *CAUSES, *ALIGNMENT, *CUES, *STUCK)}
STATIC = [c for c in CLAIMS if c.measure is not None and c.id not in ELSEWHERE]


def verdicts(stack) -> dict[str, str]:
    config = Member(0).config(stack.config)
    model = Evidence(stack, config, pair_split(config.task, 0), 1000)
    model.pair_accuracy = {n: pair_accuracy(stack, config, n, contexts=4) for n in model.types}  # 24 take seconds
    return {c.id: judge(c, [model], "").verdict for c in STATIC}


def test_ids_are_unique_and_every_paper_label_is_there():
    ids = [c.id for c in CLAIMS]
    assert len(set(ids)) == len(ids)
    labels = {c.label for c in CLAIMS}
    assert {
        "accuracies",
        "attention",
        "cosine_sim_combined",
        "ov-mlp",
        "probes",
        "preacts",
        "qk0",
        "qk0pos_and_qk1",
    } <= labels
    assert {"early", "late", "progress_measures", "generalization_combined"} <= labels
    assert all(c.rule is not None and [c.measure, c.seed_measure, c.measured].count(None) == 2 for c in CLAIMS)


def test_a_network_that_works_as_the_paper_says_fulfils_its_claims():
    found = verdicts(handmade(PRESETS["paper"]))
    built_otherwise = {
        "qk1-positions-increase",  # its previous-token head looks at one position, not at later ones more,
        "qk1-numbers-variables",
        "qk1-numbers-variables-strong",
        "qk1-positions-variables",
        "qk1-positions-variables-strong",  # nor at variables
        "cosine-ov2-second-shuffled",  # its number vectors are orthogonal: exactly one half stays
    }
    wrong = {id for id, v in found.items() if v == FAILS} - built_otherwise
    assert wrong == set()


def test_random_weights_do_not():
    found = verdicts(initial_stack(PRESETS["paper"], [0]))
    holds = {id for id, v in found.items() if v == HOLDS}
    negative = {
        "probe-before-mlp",
        "probe-before-mlp-rows",
        "probe-neurons-before-relu",
        "probe-control",
        "fourier-excluded",
    }
    assert not any(
        id.startswith(("over-98", "new-positions", "held-out", "ov-mlp", "attn", "attention", "qk2")) for id in holds
    )
    assert negative <= holds and "probe-after-mlp" not in holds and "fourier-best-neuron" not in holds


def test_one_evaluation_says_nothing_of_when():
    """The six networks of the census come with their last evaluation alone."""
    models, _ = evidence(Run.open(SIX), n=50)
    at_the_end = {"over-99-all-sets"}
    assert {judge(c, models, "").verdict for c in DYNAMICS if c.id not in at_the_end} == {UNTESTABLE}


def test_one_claim_or_one_label_can_be_chosen():
    assert [c.id for c in chosen("qk2-identity")] == ["qk2-identity"]
    assert {c.label for c in chosen("late")} == {"late"} and chosen(None) == CLAIMS
    assert chosen("cue") == CUES and [c.id for c in chosen("stuck-rule")] == ["stuck-rule"]
    with pytest.raises(ConfigError, match="only = 'x': expected the id or label"):
        chosen("x")


# The paper's run at its last checkpoint: value, and what sampling (or a template that the paper omits) leaves open.
PUBLISHED = {
    "ov-mlp-99.94": (3477 / 3481, 1e-6), "over-98-0-var-add-restricted": (0.9929, 0.006),
    "over-98-2-var-add-restricted": (0.9833, 0.008),
    "over-98-2-var-var-restricted-1": (0.9790, 0.009), "over-98-1-var-doubly-held-out": (0.9916, 0.006),
    "held-out-mirror-seen": (1.0, 0.001), "held-out-neither-order": (1.0, 0.001), "held-out-doubles": (0.65, 0.01),
    "new-positions-99.6": (0.996, 0.0015), "over-98-all-types": (0.9790, 0.004),
    "cosine-matched-template": (0.973, 0.001), "cosine-mismatched-template": (0.139, 0.02),
    "cosine-matched-0v-1v": (0.966, 0.003), "cosine-matched-0v-2v": (0.941, 0.004),
    "cosine-ov2-attention": (0.986, 0.002), "cosine-ov2-second-shuffled": (0.535, 0.02),
    "cosine-ov2-both-shuffled": (0.061, 0.03),
    "cosine-ov2-residual-0v": (0.981, 0.002), "cosine-ov2-residual-1v": (0.962, 0.003),
    "cosine-ov2-residual-2v": (0.940, 0.004),
    "probe-before-mlp-rows": (0.044, 0.02), "probe-after-mlp": (0.999, 0.007), "fourier-power": (0.994, 0.0005),
    "fourier-median-neuron-circuit": (0.693, 0.001), "attention-mass": (0.59, 0.01), "qk2-identity": (1.0, 0),
    "qk1-previous": (1.0, 0),
}  # fmt: skip


def test_the_papers_network_shows_its_published_numbers(paper_run):
    models, _ = evidence(paper_run, 40_000, n=4000)
    found = {c.id: judge(c, models, "") for c in CLAIMS if c.id in {*PUBLISHED, "ov-mlp-near-perfect"}}
    for id, (value, tolerance) in PUBLISHED.items():
        assert found[id].value == pytest.approx(value, abs=tolerance), id
    assert found["ov-mlp-99.94"].verdict == FAILS and found["ov-mlp-near-perfect"].verdict == HOLDS
    # The first spike between 5301 and 5401, the second between 14501 and 16001, the late variable b in the second slot.
    e = models[0]
    assert (e.phases.first_spike.before, e.phases.first_spike.after) == (5301, 5401)
    assert (e.phases.second_spike.before, e.phases.second_spike.after) == (14501, 16001)
    assert (e.late_variable.variable, e.late_variable.slot, e.late_variable.banned) == ("b", "second", True)
    assert (e.late_variable.spike.before, e.late_variable.spike.after) == (14501, 16001)


@pytest.mark.slow
def test_more_sequences_change_no_verdict_but_undecided_ones():
    """From 1,000 to 3,000 sequences, on a shipped network that binds and on one that does not."""
    exact = ("probe", "qk", "fourier", "ov-mlp")
    run, sampled = Run.open(SIX), [*INTERCHANGE, *(c for c in STATIC if not c.id.startswith(exact))]
    few, many = (evidence(run, n=n)[0] for n in (1000, 3000))
    for seed in (3, 1):
        models = [next(e for e in some if e.seed == seed) for some in (few, many)]
        models[1].pair_accuracy = models[0].pair_accuracy  # over every pair of numbers, whatever n is
        verdicts = {c.id: tuple(judge(c, [e], "").verdict for e in models) for c in sampled}
        changed = {id: pair for id, pair in verdicts.items() if pair[0] != pair[1]}
        assert all(UNDECIDED in pair for pair in changed.values()), changed
        decided = [sum(pair[i] in (HOLDS, FAILS) for pair in verdicts.values()) for i in (0, 1)]
        assert decided[1] >= decided[0] and len(verdicts) > 40
