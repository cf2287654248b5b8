"""Measures: numbers of each network of a stack, from its weights or its answers."""

from assignadd.measures.accuracies import accuracies_of
from assignadd.measures.addition import ov2_mlp2_accuracy
from assignadd.measures.columns import ProgressObserver
from assignadd.measures.scores import qk2_ov1_var_identity
from assignadd.measures.sequences import every_pair, sequences

__all__ = [
    "ProgressObserver",
    "accuracies_of",
    "every_pair",
    "ov2_mlp2_accuracy",
    "qk2_ov1_var_identity",
    "sequences",
]
