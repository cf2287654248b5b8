"""The figures on causes, as the report takes them."""

from __future__ import annotations

from assignadd.figures.causes_over_time import causes_over_time_data, draw_causes_over_time
from assignadd.figures.circuit import circuit_data, draw_circuit
from assignadd.figures.circuit_only import circuit_only_data, draw_circuit_only
from assignadd.figures.interchange import draw_interchange, interchange_data
from assignadd.figures.kinds import FigureKind, on_axes

CAUSES = (
    FigureKind(
        "circuit",
        "The whole circuit, path by path",
        "What the accuracy on sums with one variable loses when one path alone carries its mean over tokens of the same role. The wider "
        "an arrow, the more is lost; smaller effects than .03 are not drawn, and boxes without a drawn path are pale.",
        lambda models: circuit_data(models[0].causal.paths, models[0].causal.direct_logits),
        on_axes(draw_circuit),
        height=4.4,
        width=7.0,
    ),
    FigureKind(
        "interchange",
        "Where the program's variables are held",
        "(a) An activation is taken from another prompt: the share of pairs whose answer becomes what the program says, 1 where the place "
        "holds the variable, about 0 where it does not (the controls). `query and tag` also exchanges layer 1's output at the second "
        "operand slot. (b) to (d) by the numbers of variables in both prompts: off the diagonal, operands of one kind replace another's.",
        lambda models: interchange_data(models[0].causal.interchange, models[0].causal.untrained),
        draw_interchange,
        height=4.8,
        width=6.4,
    ),
    FigureKind(
        "circuit_only",
        "The circuit alone",
        "Accuracy with section 5's parts and nothing else, and with blocks of QK2 added to them that find literal operands: section 7's, "
        "asked for by the last position alone or by the token `=` and its position (=), and what numbers that layer 1 copies into `=` ask "
        "for. Below, with one circuit reduced to its named part, and with one part removed. A pale cell in the first two groups lacks "
        "something that the network uses; a dark row in the last group is a part that it can do without.",
        lambda models: circuit_only_data(models[0].causal.circuit_alone),
        on_axes(draw_circuit_only),
        height=6.6,
        width=6.4,
    ),
    FigureKind(
        "causes_over_time",
        "When the causes appear",
        "Interchange accuracies (above) and the paper's measures in the same colours (below). Where a measure rises before its cause, it "
        "reads something that the network does not use yet.",
        lambda models: causes_over_time_data(models[0].causal.over_time, models[0].trajectory, models[0].phases),
        draw_causes_over_time,
        height=4.4,
        width=6.4,
    ),
)
