"""A network that comes from no run has the same numbers as from a run folder; what is measured is measured once."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from assignadd import network as networks
from assignadd.config import PRESETS, Member
from assignadd.dynamics.trajectory import binds, curves_of, followed, onsets_of, trajectory_of
from assignadd.ledger.claim import judge
from assignadd.measures.accuracies import (
    accuracies_of,
    banned_slot_accuracy,
    end_accuracies_of,
    end_steps,
)
from assignadd.measures.probes import answer_probes_of
from assignadd.measures.routing import routing_columns
from assignadd.model.architecture import NotDefined
from assignadd.model.stack import initial_stack
from assignadd.network import Job, Network, measure_ahead, networks_of, per_network, runs_of, store_result
from assignadd.paper.addition.claims import ADDITION
from assignadd.paper.causes.claims import INTERCHANGE
from assignadd.paper.causes.interchange import interchange_of
from assignadd.paper.ledger import CLAIMS
from assignadd.paper.theory.real_gradient import theory_gradient_of
from assignadd.task.splits import pair_split
from assignadd.training.loop import train_run
from tests.interventions import small

SMOKE, MEMBERS = PRESETS["smoke"], [Member(3), Member(4)]
CONFIG = replace(SMOKE, record=replace(SMOKE.record, checkpoint_every=6))
SPLITS = [pair_split(CONFIG.task, m.seed) for m in MEMBERS]
N = 80


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The second of two models from its run, and again from the checkpoints alone."""
    run = train_run(tmp_path_factory.mktemp("network") / "run", CONFIG, MEMBERS, torch.stack(SPLITS))
    of_run = networks_of(run, n=N)[0][1]
    checkpoints = {step: run.checkpoint(step).models(1) for step in run.steps}
    last, config = checkpoints.pop(run.step), MEMBERS[1].config(CONFIG)
    alone = Network(last, config, SPLITS[1], N, step=run.step, seed=4, other_checkpoints=checkpoints)
    return of_run, alone


def test_the_last_network_is_measured_alike(both):
    of_run, alone = both
    assert (of_run.seed, of_run.step, of_run.steps) == (alone.seed, alone.step, alone.steps)
    assert accuracies_of(of_run) == accuracies_of(alone) and binds(of_run) == binds(alone)
    assert interchange_of(of_run)["sum"].accuracy == interchange_of(alone)["sum"].accuracy


def test_the_end_of_training_is_measured_alike(both):
    of_run, alone = both
    assert end_steps(of_run) == end_steps(alone) == [54, 60]  # the checkpoints in the last tenth of 60 steps
    assert {len(a.shares) for a in end_accuracies_of(alone).values()} == {2}
    assert end_accuracies_of(of_run) == end_accuracies_of(alone) and banned_slot_accuracy(
        of_run
    ) == banned_slot_accuracy(alone)
    earlier = networks_of(of_run.run, alone.steps[1], n=N)[0][1]
    assert end_steps(earlier) == [alone.steps[1]]  # the one that was asked for
    assert curves_of(earlier).steps.max() <= alone.steps[1]


def test_checkpoints_are_measured_alike(both):
    of_run, alone = both
    mine, theirs = trajectory_of(of_run), trajectory_of(alone)
    assert mine.keys() == theirs.keys() and len(mine["step"]) == len(of_run.steps)
    assert all(np.array_equal(mine[name], theirs[name], equal_nan=True) for name in mine)
    early = alone.stack_at(1).flat
    assert (of_run.stack_at(1).flat == early).all() and (early != alone.stack.flat).any()


def test_curves_come_from_the_checkpoints_where_nothing_was_recorded(both):
    of_run, alone = both
    curves = curves_of(alone)
    assert alone.rows == [] and of_run.rows and curves.steps.tolist() == alone.steps and followed(alone)
    earlier = Network(
        alone.stack_at(1), alone.config, SPLITS[1], N, step=1, other_checkpoints=dict.fromkeys(alone.steps, alone.stack)
    )
    assert max(earlier.steps) > 1 and curves_of(earlier).steps.tolist() == [step for step in alone.steps if step <= 1]
    last = {name: values[-1] for name, values in curves.accuracy.items()}
    assert last == {name: pytest.approx(accuracies_of(alone)[name].accuracy) for name in last}


def test_only_runs_are_listed(both):
    of_run, alone = both
    assert runs_of([of_run, alone, of_run]) == [of_run.run] and not alone.imported and alone.name == "weights"


def test_every_claim_can_be_asked_of_bare_weights():
    alone = Network(initial_stack(CONFIG, [5]), Member(5).config(CONFIG), pair_split(CONFIG.task, 5), N)
    assert theory_gradient_of(alone) is None and onsets_of(alone) and not followed(alone) and not binds(alone)
    asked = [c for c in CLAIMS if c.measure is not None]
    few = [judge(c, [alone], "") for c in asked]
    store_result(alone, binds, True)  # as if it bound: claims about binding are asked of no other network
    many = [judge(c, [alone], "") for c in asked]
    assert {r.by_seed[0].run for r in (*few, *many) if r.by_seed} == {"weights"}
    assert 0 < sum(bool(r.by_seed) for r in few) < 10 and sum(bool(r.by_seed) for r in many) > 40


def test_a_whole_stack_is_not_one_model():
    with pytest.raises(ValueError, match=r"expected a stack of one model .* got 2 models"):
        Network(initial_stack(CONFIG, [0, 1]), Member(0).config(CONFIG), SPLITS[0])


def handmade() -> Network:
    return Network(small.HANDMADE, small.CONFIG, small.SEEN, 60)


def test_a_result_is_computed_once_for_each_network_and_each_further_argument():
    asked = []

    @per_network()
    def times(network: Network, factor: int = 1) -> int:
        asked.append(factor)
        return factor * network.n

    one, other = handmade(), handmade()
    assert [times(one), times(one), times(one, 2), times(one, 2), times(other)] == [60, 60, 120, 120, 60]
    assert asked == [1, 2, 1]
    store_result(one, times, 7)
    store_result(one, times, 8, 3)
    assert (times(one), times(one, 2), times(one, 3), times(other)) == (7, 120, 8, 60) and asked == [1, 2, 1]


@pytest.fixture
def only_slow(monkeypatch):
    """Nothing but these functions is measured ahead."""
    return lambda *measures: monkeypatch.setattr(networks, "SLOW", [s for s in networks.SLOW if s.measure in measures])


def test_claims_are_judged_alike_on_what_was_measured_ahead_in_other_processes(only_slow):
    asked = (interchange_of, accuracies_of, routing_columns, answer_probes_of, curves_of)
    only_slow(*asked)
    here, there = handmade(), handmade()
    heard = []
    measure_ahead([there], 2, heard.append)
    assert sorted(heard) == sorted(f.__name__ for f in asked)
    expected = {f"{f.__module__}.{f.__qualname__}" for f in asked}
    assert {name for name, *_ in there.results} >= expected and not here.results
    records = [repr([judge(c, [e], "") for c in (*ADDITION, *INTERCHANGE)]) for e in (here, there)]
    assert records[0] == records[1]


@pytest.mark.parametrize("processes", [1, 2])
def test_what_is_asked_of_some_networks_is_measured_of_no_other(monkeypatch, processes):
    monkeypatch.setattr(networks, "SLOW", [])

    @per_network(slow=True, only=lambda network: network.seed == 3)
    def of_some(network: Network) -> int:
        return 10 * network.seed

    asked = [Network(small.HANDMADE, small.CONFIG, small.SEEN, 60, seed=seed) for seed in (2, 3)]
    measure_ahead(asked, processes)
    assert [list(e.results.values()) for e in asked] == [[], [30]]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_measure_that_is_not_defined_raises_its_error_where_it_is_asked_for(monkeypatch, processes):
    """And keeps no other from being measured, nor what it had measured before."""
    monkeypatch.setattr(networks, "SLOW", [])

    @per_network()
    def needed(network: Network) -> int:
        return 5

    @per_network(slow=True)
    def bad(network: Network) -> int:
        raise NotDefined("a measure", f"has no MLP {needed(network)}")

    @per_network(slow=True)
    def good(network: Network) -> int:
        return 7

    one, kept = handmade(), []
    measure_ahead([one], processes, more=[Job("other", lambda: 9, kept.append)])
    assert sorted(one.results.values()) == [5, 7] and kept == [9]
    with pytest.raises(NotDefined, match="a measure is not defined for this network: it has no MLP 5"):
        bad(one)
