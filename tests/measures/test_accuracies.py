"""Accuracies with intervals: 1.0 on the hand-made model, chance on random weights, the paper's numbers on its own run."""

import pytest
import torch

from assignadd.config import PRESETS, Config, Member
from assignadd.measures.accuracies import Accuracy, set_accuracies
from assignadd.model.handmade import handmade
from assignadd.model.stack import initial_stack
from assignadd.runs.transformer_lens import import_state_dicts
from assignadd.stats import wilson
from assignadd.task.evalsets import ALL_SETS, CLASS_SETS, EVAL_SETS, RECORDED_SETS
from assignadd.task.splits import pair_split
from tests.reference import REFERENCE

# Accuracy of the paper's run in SPEC section 5, on 20,000 sequences a set.
PUBLISHED = {
    30001: {
        "0-var train": 1.0, "0-var add-restricted": 0.9899, "1-var train": 0.9998, "1-var add-restricted": 0.9914,
        "1-var var-restricted": 0.9999, "2-var train": 0.9990, "2-var add-restricted": 0.9884, "2-var var-restricted (1)": 0.9964,
        "2-var var-restricted (2)": 0.9996, "1-var doubly held out": 0.9917, "2-var doubly held out (1)": 0.9857,
        "2-var doubly held out (2)": 0.9905,
    },
    40000: {
        "0-var train": 1.0, "0-var add-restricted": 0.9929, "1-var train": 0.9996, "1-var add-restricted": 0.9921,
        "1-var var-restricted": 0.9987, "2-var train": 0.9952, "2-var add-restricted": 0.9833, "2-var var-restricted (1)": 0.9790,
        "2-var var-restricted (2)": 0.9948, "1-var doubly held out": 0.9916, "2-var doubly held out (1)": 0.9621,
        "2-var doubly held out (2)": 0.9832,
    },
}  # fmt: skip
# Along its training, on 3,000 sequences a set: the eight sets after "0-var train", in order.
ALONG_TRAINING = {
    1001: (0.825, 0.424, 0.202, 0.319, 0.343, 0.227, 0.318, 0.292),
    3001: (0.913, 0.579, 0.353, 0.227, 0.458, 0.357, 0.255, 0.087),
    5301: (0.968, 0.753, 0.583, 0.235, 0.575, 0.398, 0.229, 0.028),
    10001: (0.997, 1.0, 0.989, 0.755, 0.990, 0.977, 0.736, 0.483),
}
N = 10_000


def test_the_hand_made_model_is_right_on_every_set():
    stack = handmade(Config(task=PRESETS["paper"].task))
    sets = set_accuracies(stack, [Member(0).config(stack.config)], pair_split(stack.config.task, 0)[None], 500)[0]
    assert list(sets) == [s.name for s in ALL_SETS]
    assert all(
        a.accuracy == 1.0 and a.n == 500 and a.interval == wilson(a.pairs or 500, a.pairs or 500) for a in sets.values()
    )


def test_the_interval_of_a_class_is_over_its_pairs():
    """Many sequences that add the same few doubles say no more about doubles than these few do."""
    config, n = Member(0).config(PRESETS["tiny"]), 400
    seen = pair_split(config.task, 0)
    pairs = {
        "mirror seen": (~seen & seen.T).sum(),
        "neither order": (~seen & ~seen.T).triu(1).sum(),  # n + m and m + n are one
        "doubles": (~seen).diag().sum(),
    }
    stack = initial_stack(config, [0])
    sets = set_accuracies(stack, [config], seen[None], n)[0]
    for n_vars in (0, 1, 2):
        for kind, count in pairs.items():
            found = sets[f"{n_vars}-var {kind}"]
            assert 0 < count < n and found.pairs == count
            assert found.interval == wilson(found.accuracy * int(count), int(count))
    assert {a.pairs for name, a in sets.items() if name in {s.name for s in RECORDED_SETS}} == {None}
    few = set_accuracies(stack, [config], seen[None], 5, CLASS_SETS[:1])[0]["0-var mirror seen"]
    assert few.pairs is None and few.interval == wilson(
        round(5 * few.accuracy), 5
    )  # five sequences add five pairs at most


def test_random_weights_are_at_chance():
    config = PRESETS["paper"]
    sets = set_accuracies(
        initial_stack(config, [0]), [Member(0).config(config)], pair_split(config.task, 0)[None], 2000
    )[0]
    assert all(a.accuracy < 0.06 for a in sets.values())  # 1/59, with room for answers that come more often than others


needs_reference = pytest.mark.skipif(
    not REFERENCE.is_dir(), reason=f"no reference checkpoints at {REFERENCE.name}/ beside the checkout"
)


def assert_within_sampling_error(found: Accuracy, published: float, n: int) -> None:
    """Four standard errors of the difference between two samples."""
    p = (found.accuracy + published) / 2
    error = (max(p * (1 - p), 5e-4) * (1 / found.n + 1 / n)) ** 0.5
    assert abs(found.accuracy - published) <= 4 * error, (found.accuracy, published)


def papers_run(step: int, tmp_path) -> dict[str, Accuracy]:
    torch.set_num_threads(1)
    file = "model_state_dict.pth" if step == 40000 else f"checkpoint_step_{step}.pth"
    run = import_state_dicts([REFERENCE / file], PRESETS["authors"], tmp_path / "run")
    return set_accuracies(run.checkpoint(step), run.configs, run.seen, N)[0]


@needs_reference
@pytest.mark.parametrize("step", PUBLISHED)
def test_the_papers_own_run_shows_its_published_accuracies(step, tmp_path):
    sets = papers_run(step, tmp_path)
    for name, published in PUBLISHED[step].items():
        assert_within_sampling_error(sets[name], published, 20_000)
    # Every error on literal sums is a double n + n (SPEC section 1).
    assert min(sets["0-var mirror seen"].accuracy, sets["0-var neither order"].accuracy) > 0.9995
    assert sets["0-var doubles"].accuracy < 0.75 and [
        sets[f"0-var {k}"].pairs for k in ("mirror seen", "neither order", "doubles")
    ] == [
        723,
        151,  # of 302 pairs, each in both orders
        20,
    ]


@needs_reference
@pytest.mark.parametrize("step", ALONG_TRAINING)
def test_the_papers_own_run_shows_them_along_its_training(step, tmp_path):
    sets = papers_run(step, tmp_path)
    for evalset, published in zip(EVAL_SETS[1:], ALONG_TRAINING[step], strict=True):
        assert_within_sampling_error(sets[evalset.name], published, 3000)
