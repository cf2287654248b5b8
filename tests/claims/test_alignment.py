"""The claims on alignment searches, on a model that has the sum by construction."""

import pytest

from assignadd.claims.causes import ALIGNMENT
from assignadd.claims.evidence import Evidence
from assignadd.claims.record import judge
from assignadd.verdicts import FAILS, HOLDS
from tests.interventions.small import CONFIG, HANDMADE, SEEN, TASK

CHANCE = 3 / TASK.modulus


@pytest.fixture(scope="module")
def records():
    handmade = Evidence(HANDMADE, CONFIG, SEEN, 1800)
    return {claim.id: judge(claim, [handmade], "") for claim in ALIGNMENT}


def test_a_search_finds_the_sum_where_it_is_and_not_in_an_untrained_network(records):
    assert records["search-sum"].verdict == HOLDS and records["search-sum-untrained"].value < CHANCE
    # Fewer pairs than a map needs to be as good as a subspace.
    assert records["search-map"].value > 0.75 and records["search-map-untrained"].value < CHANCE


def test_a_map_fits_both(records):
    """What Sutter et al. (2025) found: the number on fitted pairs says nothing about the network."""
    assert records["search-map-fitted"].verdict == HOLDS
    assert (
        records["search-map-fitted-untrained"].verdict == FAILS and records["search-map-fitted-untrained"].value > 0.9
    )
    assert records["search-map-fitted"].n + records["search-map"].n < 1000  # fitted and unseen pairs are different ones


def test_every_number_of_a_network_has_that_of_the_untrained_one_beside_it():
    ids = [claim.id for claim in ALIGNMENT]
    assert [f"{id}-untrained" for id in ids[::2]] == ids[1::2]
