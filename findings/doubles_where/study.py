"""Where in the network do held-out doubles fail: in the OV-MLP circuit, or by what layer 1 adds to the values?"""

from collections.abc import Mapping, Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from assignadd import Config
from assignadd.figure import COLORS, draw_networks
from assignadd.measures import every_pair
from assignadd.model import OV, LastLayer, Stack, require
from assignadd.study import PAPER, Cell, Study, StudyTable, final_column, mean
from assignadd.task import answer_of, operand_slots

CONTEXTS = 8
WHOLE, ISOLATED = "whole network", "OV-MLP alone"
NO_LAYER_1, ONLY_NUMBERS = "without layer 1 at the values", "numbers alone as values"
NO_EQUALS, HALVES = "only what layer 2 writes", "half of the attention on each slot"
NO_DIRECT = "without the direct path"
# What each change measures; the rows of the figure, too.
CHANGES = {
    ISOLATED: "the isolated OV-MLP, W_U MLP2(OV2(n) + OV2(m))",
    NO_DIRECT: "the network whose unembedding reads the output of MLP2 alone",
    ONLY_NUMBERS: "the network with the embeddings of the numbers alone as values at the operand slots",
    HALVES: "the network with half of the attention of `=` in layer 2 on each operand slot",
    NO_LAYER_1: "the network without what layer 1 adds at the operand slots to the values of layer 2",
    NO_EQUALS: "the network whose `=` has nothing but what layer 2 writes",
}
OTHERS = "others, "
PAIRS = {"": "held-out doubles", OTHERS: "other pairs held out in both orders"}
PREFERENCE, STRENGTH = "preference for 2n", "strength of held-out doubles"
MEANINGS = {
    final_column(WHOLE): "accuracy of the whole network on held-out doubles",
    final_column(OTHERS + WHOLE): "accuracy of the whole network on pairs held out in both orders",
    **{
        final_column(of + name): f"{pairs}: accuracy of {what}, minus the whole"
        for of, pairs in PAIRS.items()
        for name, what in CHANGES.items()
    },
    final_column(PREFERENCE): "how far the OV-MLP prefers 2n and 2m as answers to n + m (.5 in appendix C)",
    final_column(STRENGTH): "right logit of held-out doubles in the OV-MLP over that of n + m (2 in appendix C)",
}


def where_columns(stack: Stack, configs: Sequence[Config], seen: Tensor) -> list[dict[str, float]]:
    """Accuracy of each network on held-out doubles and on other pairs held out in both orders, with each change minus
    without."""
    require(stack.config, "layer 1 at the values of layer 2")
    drawn, rows = every_pair(configs, seen, 0, CONTEXTS), []
    for model, tokens, labels, split in zip(stack, drawn.tokens, drawn.labels, seen, strict=True):
        neither = (~split & ~split.T).flatten().repeat(CONTEXTS)
        correct = correct_with(model, tokens[neither], labels[neither])
        first, second = (tokens[neither][:, slot] for slot in operand_slots(model.config.task))
        row = of_the_circuit(model, ~split.diagonal())
        for of, pairs in (("", first == second), (OTHERS, first != second)):
            accuracy = {name: float(right[pairs].double().mean()) for name, right in correct.items()}
            row |= {of + name: accuracy[name] - accuracy[WHOLE] for name in CHANGES} | {of + WHOLE: accuracy[WHOLE]}
        rows.append(row)
    return rows


def correct_with(model: Stack, tokens: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Which literal sums one network answers, as it is and with each change of the values or of `=` in layer 2."""
    layer, task = LastLayer(model), model.config.task
    slots = list(operand_slots(task))
    trace = layer.trace(tokens)
    before, copied = layer.before(trace), layer.copied(tokens)
    pattern, attention = layer.pattern(before), trace.attention(1)[:, 0]

    def at_slots(change: Tensor) -> Tensor:
        values = before.clone()
        values[:, slots] = values[:, slots] + change
        return values

    def right(values: Tensor, weights: Tensor = pattern, equals: Tensor = before[:, -1]) -> Tensor:
        return layer.logits(equals + layer.attention_output(weights, values)).argmax(-1) == labels

    halves = torch.zeros_like(pattern)
    halves[..., slots] = 0.5
    numbers = model.W_E[0][tokens[:, slots]]
    outputs = numbers.sum(1) @ OV(model, 2)[0]
    alone = (outputs @ model["blocks.1.mlp.W_in"][0]).relu() @ model["blocks.1.mlp.W_out"][0] @ model.W_U[0]
    return {
        WHOLE: right(before),
        ISOLATED: alone.argmax(-1) == labels,
        NO_LAYER_1: right(at_slots(-attention[:, slots] @ copied)),
        ONLY_NUMBERS: right(at_slots(numbers - before[:, slots])),
        NO_EQUALS: right(before, equals=torch.zeros_like(before[:, -1])),
        HALVES: right(before, weights=halves),
        NO_DIRECT: layer.unembedded(layer.mlp(trace.resid_mid)).argmax(-1) == labels,
    }


def of_the_circuit(model: Stack, held_out: Tensor) -> dict[str, float]:
    """In the OV-MLP, the logits of 2n and 2m for n + m (n != m), and that of n + n for doubles that are held out.

    Both minus the mean over all answers and divided by the right logit of n + m.
    """
    task = model.config.task
    n = torch.arange(task.modulus, device=model.flat.device)
    x = model.W_E[0, : task.modulus] @ OV(model, 2)[0] @ model["blocks.1.mlp.W_in"][0]
    logits = (x[:, None] + x).relu() @ model["blocks.1.mlp.W_out"][0] @ model.W_U[0]
    logits = logits - logits.mean(-1, keepdim=True)
    answers = answer_of(task, (n[:, None], n))
    double = answers.diagonal()[:, None].expand_as(answers)
    different = ~torch.eye(len(n), dtype=torch.bool, device=n.device)
    right, of_n, of_m = (logits.gather(-1, a[..., None])[..., 0] for a in (answers, double, double.T))
    unit = right[different].mean()
    doubles = right.diagonal()[held_out].mean()
    return {PREFERENCE: float((of_n + of_m)[different].mean() / 2 / unit), STRENGTH: float(doubles / unit)}


STUDY = Study(
    "doubles-where",
    "Where do held-out doubles fail in networks that bind: in the OV-MLP, or by what layer 1 adds to the values?",
    (Cell(PAPER),),
    seeds=48,
    first_seed=12_200,
    steps=30_000,
    columns=MEANINGS,
    measure=where_columns,
    outcomes=("adds", "binds", "learned"),
    numbers=("binding at", final_column(WHOLE), final_column(ISOLATED), final_column(NO_LAYER_1)),
    ask=(
        *(
            mean(final_column(name), among="binds").at_least(0.05)
            for name in (ISOLATED, NO_LAYER_1, NO_EQUALS, HALVES, NO_DIRECT)
        ),
        mean(final_column(OTHERS + NO_LAYER_1), among="binds").at_least(-0.05),
        mean(final_column(PREFERENCE), among="binds").at_least(0.05),
        mean(final_column(STRENGTH), among="binds").at_least(1.5),
    ),
)

SIZE = (6.5, 3.0)


def draw(tables: Mapping[str, StudyTable], figure: Figure) -> None:
    """What each change adds to the accuracy on held-out doubles and on other held-out pairs, in networks that bind."""
    table, axes = tables[STUDY.name], figure.subplots()
    for of, color, shift in (("", COLORS.vermilion, -0.15), (OTHERS, COLORS.blue, 0.2)):
        gains = {change: table.values(PAPER, final_column(of + change), "binds") for change in CHANGES}
        draw_networks(axes, gains, color, PAIRS[of], shift)
    axes.axvline(0, color=COLORS.grey, linewidth=0.8)
    axes.set(xlim=(-0.12, 0.52), xlabel="accuracy with the change minus without (circle: a network; line: mean)")
    axes.legend(loc="lower right")
