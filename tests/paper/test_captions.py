"""Captions of runs for which the usual sentences are false: they state the numbers that are drawn."""

import numpy as np
import pytest

from assignadd.paper.binding.figures import (
    QK0PosAndQK1Data,
    qk0pos_and_qk1_caption,
)
from assignadd.paper.generalisation.figures import (
    ACCURACIES_FIGURE,
    AccuraciesData,
    accuracies_caption,
)
from assignadd.report.reproduction import CAUSES, DYNAMICS, MECHANISM

NOT_ALWAYS_TRUE = (
    "nearly perfect",
    "are learned first",
    "in a jump at",
    "by no means all",
    "should be",
    "lies on a few",
)


@pytest.mark.parametrize("record", [ACCURACIES_FIGURE, *MECHANISM, *CAUSES, *DYNAMICS], ids=lambda r: r.label)
def test_what_to_look_for_claims_nothing(record):
    assert not [words for words in NOT_ALWAYS_TRUE if words in record.look_for]


def test_variables_before_literals():
    sets = ["0-var train", "1-var train", "1-var var-restricted"]
    accuracy = np.array([[0.1, 0.2, 0.0], [0.3, 0.95, 0.2], [0.6, 1.0, 0.125]])
    found = accuracies_caption(AccuraciesData(np.array([0, 100, 200]), sets, accuracy))
    assert "literals alone never, one variable at step 100" in found
    assert "the lowest set, 'one variable, in a banned slot', is at 0.125" in found
    equal = accuracies_caption(AccuraciesData(np.array([0, 100]), sets, np.array([[0.1, 0.2, 0.0], [1.0, 1.0, 1.0]])))
    assert equal.endswith("At the end, step 100, every set is at 1.000.")


def test_scores_that_match_nothing():
    admissible = np.tri(4, k=-1, dtype=bool)
    variables = np.array([[0.0, 1.0], [1.0, 0.0]])
    data = QK0PosAndQK1Data(np.tile([3.0, 2.0, 1.0, 0.0], (4, 1)), admissible, variables, ["a", "b"])
    found = qk0pos_and_qk1_caption(data)
    assert (
        "wins in 1 of 3 rows of (a), and 0 of 2 variables" in found
    )  # position 0 wins, which is before position 1 alone
