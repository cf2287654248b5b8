"""The figures on causes, as the report takes them."""

from __future__ import annotations

from assignadd.claims.causal import causal
from assignadd.figures.causes_over_time import causes_over_time_data, draw_causes_over_time
from assignadd.figures.circuit import circuit_data, draw_circuit
from assignadd.figures.circuit_only import circuit_only_data, draw_circuit_only
from assignadd.figures.interchange import draw_interchange, interchange_data
from assignadd.figures.kinds import FigureKind, on_axes

CAUSES = (
    FigureKind(
        "circuit",
        "The whole circuit, path by path",
        "What the accuracy on sums with one variable loses when one path alone carries its mean over tokens of the same role. Thick arrows "
        "are the paper's story; pale boxes have no path that matters.",
        lambda models: circuit_data(causal(models[0]).paths, causal(models[0]).direct_logits),
        on_axes(draw_circuit),
        height=4.4,
        width=7.0,
    ),
    FigureKind(
        "interchange",
        "Where the program's variables are held",
        "(a) An activation is taken from another prompt; the answer must become what the program says (blue near 1). The controls must "
        "stay at 0. (b) to (d) the same by the types of both prompts: literal and looked-up operands can be exchanged for each other.",
        lambda models: interchange_data(causal(models[0]).interchange, causal(models[0]).untrained),
        draw_interchange,
        height=4.2,
        width=6.4,
    ),
    FigureKind(
        "circuit_only",
        "The circuit alone",
        "Accuracy with the parts that the paper names and nothing else, with one circuit reduced to its named part, and with one "
        "part removed. A pale cell in the first two groups is something the story lacks; a dark row in the last one is a part that is "
        "not needed.",
        lambda models: circuit_only_data(causal(models[0]).circuit_alone),
        on_axes(draw_circuit_only),
        height=5.4,
        width=6.4,
    ),
    FigureKind(
        "causes_over_time",
        "When the causes appear",
        "Interchange accuracies (above) and the paper's measures in the same colours (below). A measure that rises before its cause reads "
        "something that the network does not use yet.",
        lambda models: causes_over_time_data(causal(models[0]).over_time, models[0].trajectory, models[0].phases),
        draw_causes_over_time,
        height=4.4,
        width=6.4,
    ),
)
