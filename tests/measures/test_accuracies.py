"""Accuracies with intervals on the hand-made model, on random weights, and on the paper's network."""

import pytest
import torch

from assignadd.config import PRESETS, Config, Member
from assignadd.measures.accuracies import Accuracy, end_accuracies, set_accuracies
from assignadd.measures.sequences import every_pair
from assignadd.model.accuracy import Exam, end_exam, end_of_training
from assignadd.model.forward import answers
from assignadd.model.handmade import handmade
from assignadd.model.stack import initial_stack
from assignadd.network import Network
from assignadd.runs.transformer_lens import import_state_dicts
from assignadd.stats import wilson
from assignadd.task.evalsets import ALL_SETS, CLASS_SETS, EVAL_SETS, RECORDED_SETS, any_sums
from assignadd.task.sampler import EveryPair
from assignadd.task.splits import pair_mask, pair_split
from tests.reference import REFERENCE

torch.set_num_threads(1)
TINY = Member(0).config(PRESETS["tiny"])
MODULUS = TINY.task.modulus
# Accuracy of the paper's run, measured once on 20,000 sequences a set.
PUBLISHED = {
    30001: {
        "0-var train": 1.0, "0-var add-restricted": 0.9899, "1-var train": 0.9998, "1-var add-restricted": 0.9914,
        "1-var var-restricted": 0.9999, "2-var train": 0.9990, "2-var add-restricted": 0.9884,
        "2-var var-restricted (1)": 0.9964, "2-var var-restricted (2)": 0.9996,
        "1-var doubly held out": 0.9917, "2-var doubly held out (1)": 0.9857,
        "2-var doubly held out (2)": 0.9905,
    },
    40000: {
        "0-var train": 1.0, "0-var add-restricted": 0.9929, "1-var train": 0.9996, "1-var add-restricted": 0.9921,
        "1-var var-restricted": 0.9987, "2-var train": 0.9952, "2-var add-restricted": 0.9833,
        "2-var var-restricted (1)": 0.9790, "2-var var-restricted (2)": 0.9948,
        "1-var doubly held out": 0.9916, "2-var doubly held out (1)": 0.9621,
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


def test_the_hand_made_model_is_right_on_every_set():
    stack = handmade(Config(task=PRESETS["paper"].task))
    sets = set_accuracies(stack, Member(0).config(stack.config), pair_split(stack.config.task, 0), 500)
    assert list(sets) == [s.name for s in ALL_SETS]
    assert all(
        a.accuracy == 1.0 and a.n == 500 and a.interval == wilson(a.pairs or 500, a.pairs or 500) for a in sets.values()
    )


def test_the_sample_size_of_a_class_is_its_number_of_pairs():
    """Many sequences that add the same few doubles say no more about other doubles."""
    config, n = Member(0).config(PRESETS["tiny"]), 400
    seen = pair_split(config.task, 0)
    pairs = {
        "mirror seen": (~seen & seen.T).sum(),
        "neither order": (~seen & ~seen.T).triu(1).sum(),  # n + m and m + n are one
        "doubles": (~seen).diag().sum(),
    }
    stack = initial_stack(config, [0])
    sets = set_accuracies(stack, config, seen, n)
    for n_vars in (0, 1, 2):
        for kind, count in pairs.items():
            found = sets[f"{n_vars}-var {kind}"]
            assert 0 < count < n and found.pairs == count
            assert found.interval == wilson(found.accuracy * int(count), int(count))
    assert {a.pairs for name, a in sets.items() if name in {s.name for s in RECORDED_SETS}} == {None}
    few = set_accuracies(stack, config, seen, 5, CLASS_SETS[:1])["0-var mirror seen"]
    assert few.pairs is None and few.interval == wilson(
        round(5 * few.accuracy), 5
    )  # five sequences add five pairs at most


def test_random_weights_are_at_chance():
    config = PRESETS["paper"]
    sets = set_accuracies(initial_stack(config, [0]), Member(0).config(config), pair_split(config.task, 0), 2000)
    assert all(a.accuracy < 0.06 for a in sets.values())  # 1/59, with room for answers that come more often than others


needs_reference = pytest.mark.skipif(
    not REFERENCE.is_dir(), reason=f"no reference checkpoints at {REFERENCE.name}/ beside the checkout"
)


def assert_within_sampling_error(found: Accuracy, published: float, n: int) -> None:
    """Four standard errors of the difference between two samples."""
    p = (found.accuracy + published) / 2
    error = (max(p * (1 - p), 5e-4) * (1 / found.n + 1 / n)) ** 0.5
    assert abs(found.accuracy - published) <= 4 * error, (found.accuracy, published)


def papers_run(step: int, tmp_path, n: int) -> dict[str, Accuracy]:
    torch.set_num_threads(1)
    file = "model_state_dict.pth" if step == 40000 else f"checkpoint_step_{step}.pth"
    run = import_state_dicts([REFERENCE / file], PRESETS["authors"], tmp_path / "run")
    return set_accuracies(run.checkpoint(step), run.configs[0], run.seen[0], n)


@needs_reference
@pytest.mark.parametrize("step", PUBLISHED)
def test_the_papers_network_has_the_published_accuracies(step, tmp_path):
    sets = papers_run(step, tmp_path, 10_000)
    for name, published in PUBLISHED[step].items():
        assert_within_sampling_error(sets[name], published, 20_000)
    # Every error on literal sums is a double n + n.
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
def test_the_papers_checkpoints_have_the_published_accuracies(step, tmp_path):
    sets = papers_run(step, tmp_path, 3000)
    for evalset, published in zip(EVAL_SETS[1:], ALONG_TRAINING[step], strict=True):
        assert_within_sampling_error(sets[evalset.name], published, 3000)


def pair_accuracy(model, config, n_vars, contexts=24):
    """One model's accuracy on each pair of numbers, (N, N), over so many sequences each."""
    N = config.task.modulus
    batch = every_pair([config], torch.ones(1, N, N, dtype=torch.bool), n_vars, contexts)
    correct = answers(model, batch.tokens)[0] == batch.labels[0]
    return correct.view(contexts, N, N).float().mean(0)


@pytest.mark.parametrize("n_vars", [0, 1, 2])
def test_the_hand_made_model_adds_every_pair_and_random_weights_do_not(n_vars):
    assert (pair_accuracy(handmade(Config(task=TINY.task)), TINY, n_vars, 3) == 1).all()
    assert pair_accuracy(initial_stack(TINY, [0]), TINY, n_vars, 3).mean() < 0.15


def test_every_pair_is_drawn_equally_often():
    seen = torch.ones(1, MODULUS, MODULUS, dtype=torch.bool)
    labels = EveryPair([TINY.task], seen, [0], any_sums(1)).sample(0, 3 * MODULUS * MODULUS).labels[0]
    n, m = torch.meshgrid(torch.arange(MODULUS), torch.arange(MODULUS), indexing="ij")
    assert torch.equal(labels, ((n + m) % MODULUS).flatten().repeat(3))


def test_wrong_answers_are_attributed_to_their_pairs():
    """With the logits of the answers 5 and 6 exchanged, exactly the pairs with these sums are wrong."""
    broken = handmade(Config(task=TINY.task)).clone()
    broken["unembed.W_U"][..., [5, 6]] = broken["unembed.W_U"][..., [6, 5]]
    n, m = torch.meshgrid(torch.arange(MODULUS), torch.arange(MODULUS), indexing="ij")
    assert torch.equal(pair_accuracy(broken, TINY, 0, 2) == 0, torch.isin((n + m) % MODULUS, torch.tensor([5, 6])))


def test_the_classes_are_a_partition_of_the_held_out_pairs():
    seen = pair_split(PRESETS["paper"].task, 3)
    classes = [pair_mask(seen, kind) for kind in ("mirror_seen", "neither_order", "doubles")]
    assert torch.equal(torch.stack(classes).sum(0), (~seen).long())
    assert torch.equal(classes[2], torch.diag(~seen.diagonal()))
    assert torch.equal(classes[0], ~seen & seen.T)


def test_the_papers_network_errs_only_on_doubles(paper_run):
    one, config, seen = paper_run.checkpoint(40_000), paper_run.configs[0], paper_run.seen[0]
    accuracy = pair_accuracy(one, config, 0)
    classes = {kind: accuracy[pair_mask(seen, kind)] for kind in ("mirror_seen", "neither_order", "doubles")}
    assert {kind: len(values) for kind, values in classes.items()} == {
        "mirror_seen": 723,
        "neither_order": 302,
        "doubles": 20,
    }
    assert classes["mirror_seen"].min() == classes["neither_order"].min() == 1
    assert classes["doubles"].mean() == pytest.approx(0.65, abs=0.03)
    wrong = (accuracy < 0.5).nonzero()
    assert len(wrong) and (wrong[:, 0] == wrong[:, 1]).all()


def test_the_end_of_training_is_the_last_ten_evaluations_of_its_last_tenth():
    assert end_of_training([*range(1, 39_902, 100), 40_000]) == [*range(39_101, 39_902, 100), 40_000]
    assert end_of_training(range(0, 50_001, 250)) == [*range(47_750, 50_001, 250)]
    assert end_of_training(range(0, 30_001, 1000)) == [27_000, 28_000, 29_000, 30_000]  # fewer are in the last tenth
    assert end_of_training([1, 1001, 30_001, 40_000]) == [40_000] and end_of_training([7]) == [7]


def swapped():
    """The hand-made model with the logits of the answers 5 and 6 exchanged: wrong on just these sums."""
    broken = handmade(Config(task=TINY.task)).clone()
    broken["unembed.W_U"][..., [5, 6]] = broken["unembed.W_U"][..., [6, 5]]
    return broken


def test_every_one_of_the_last_evaluations_has_sequences_of_its_own():
    """Ten checkpoints, the first four of which dip: their errors are the sums 5 and 6 of their own sequences."""
    steps, seen, n = [*range(1000, 1091, 10)], pair_split(TINY.task, 0), 300
    states = {step: swapped() if step < 1040 else handmade(Config(task=TINY.task)) for step in steps}
    network = Network(states[steps[-1]], TINY, seen, n, step=steps[-1], other_checkpoints=states)
    found = end_accuracies(network, ALL_SETS)
    assert list(found) == [s.name for s in ALL_SETS]
    sets = [s for s in ALL_SETS if s.name in found]
    exams = [end_exam([TINY], seen[None], sets, n, back) for back in range(9, -1, -1)]
    for i, name in enumerate(found):
        expected = []
        for step, exam in zip(steps, exams, strict=True):
            labels = exam.labels[0, i * n : (i + 1) * n]
            expected.append(1 - float(torch.isin(labels, torch.tensor([5, 6])).float().mean()) * (step < 1040))
        assert found[name].shares == pytest.approx(expected) and found[name].n == n
    drawn = {exam.tokens.numpy().tobytes() for exam in (*exams, Exam([TINY], seen[None], sets, n))}
    assert len(drawn) == 11  # fresh ones at each, and others than those of the usual exam
    assert len(set(found["1-var train"].shares[:4])) > 1


def test_the_last_evaluations_share_the_sequences_but_have_two_thousand_each():
    seen, sets, model = pair_split(TINY.task, 0), [EVAL_SETS[0], CLASS_SETS[2]], handmade(Config(task=TINY.task))

    def each(n: int, steps: int) -> int:
        network = Network(
            model, TINY, seen, n, step=2000, other_checkpoints=dict.fromkeys(range(2001 - steps, 2001), model)
        )
        found = end_accuracies(network, sets)
        assert found[CLASS_SETS[2].name].pairs == int((~seen).diag().sum()) and found[EVAL_SETS[0].name].pairs is None
        return found[EVAL_SETS[0].name].n

    assert [each(n, 10) for n in (300, 20_000, 30_000)] == [300, 2000, 3000] and each(20_000, 4) == 5000


def test_a_set_has_its_place_among_those_of_an_evaluation():
    """The last set of one evaluation and the first of the next have different sequences."""
    seen, one = pair_split(TINY.task, 0)[None], [EVAL_SETS[3]]
    exams = [end_exam([TINY], seen, one, 50, back, place) for back in range(10) for place in (0, 20, 99)]
    assert len({exam.tokens.numpy().tobytes() for exam in exams}) == 30
