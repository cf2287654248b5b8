"""Changed attention of `=` in layer 1: compared with hooks, on the hand-made model, and in the table."""

from pathlib import Path

import polars
import pytest
import torch

import assignadd
from assignadd.ledger import judge, networks_of
from assignadd.model import LastLayer
from assignadd.model.transformer import Transformer
from assignadd.user_file import user_module
from tests.interventions.small import CONFIG, HANDMADE, SEEN, TASK, random_stack, tokens

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "findings" / "operand_attention"
attention, table, claims = (user_module(FOLDER / f"{name}.py") for name in ("attention", "table", "claims"))
UNCHANGED, EXCHANGED, LITERALS, TRAINED, BANNED, TWO = (
    getattr(attention, name) for name in ("UNCHANGED", "EXCHANGED", "LITERALS", "TRAINED", "BANNED", "TWO")
)
TABLE = table.table()
ONE = tokens(24)[0, 24:48]  # (B, T): sums with one variable
FIRST, SECOND, LAST = TASK.length - 3, TASK.length - 2, TASK.length - 1
FIRST_VARIABLE = TASK.modulus + 3  # behind the numbers, `+`, `=` and PAD


def logits(stack, change):
    return attention.changed_logits(LastLayer(stack), ONE, change)


def plain_row(change: str, row: list[float], sequence: list[int]) -> list[float]:
    """The weights of `=` under a change, in plain Python, for one sequence with one variable."""
    variable, literal = (FIRST, SECOND) if sequence[FIRST] >= FIRST_VARIABLE else (SECOND, FIRST)
    every = range(LAST + 1)
    dropped = {
        "no variable slot": [variable], "no literal slot": [literal], "literal slot's weight to =": [literal],
        "no first slot": [FIRST],
        "variable slot alone": [t for t in every if t != variable], "no second slot": [SECOND],
        "no operand slots": [FIRST, SECOND],
    }.get(change, [])  # fmt: skip
    weights = [0.0 if t in dropped else weight for t, weight in enumerate(row)]
    if change == "literal slot's weight to =":
        weights[LAST] += row[literal]
    if change == EXCHANGED:
        weights[literal], weights[LAST] = row[LAST], row[literal]
    return weights


@pytest.mark.parametrize(
    "change", [c for c in attention.CHANGES if c not in (attention.OTHER_LITERAL, attention.SET_LAYER_2)]
)
def test_a_change_equals_setting_the_row_in_the_reference_transformer(change):
    stack = random_stack(1)
    model = Transformer.from_stack(stack, 0)

    def hook(pattern, point):
        pattern = pattern.clone()
        rows = [plain_row(change, row, seq) for row, seq in zip(pattern[:, 0, -1].tolist(), ONE.tolist(), strict=True)]
        pattern[:, 0, -1] = torch.tensor(rows, dtype=pattern.dtype)
        return pattern

    expected = model.run_with_hooks(ONE, fwd_hooks=[("blocks.0.attn.hook_pattern", hook)])[:, -1]
    changed = logits(stack, change)
    assert torch.allclose(changed, expected, atol=1e-8)
    assert change == UNCHANGED or not torch.allclose(changed, model.answer_logits(ONE), atol=1e-3)


def test_the_literal_of_another_sequence_equals_hooks_on_the_reference_transformer():
    """The weight and the value of the literal's slot are those of the previous sequence of the same kind."""
    stack = random_stack(1)
    model = Transformer.from_stack(stack, 0)
    _, cache = model.run_with_cache(ONE)
    pattern, values = cache["blocks.0.attn.hook_pattern"][:, 0, -1], cache["blocks.0.attn.hook_v"]
    W_O = stack["blocks.0.attn.W_O"][0, 0]
    sent = (values.reshape(len(ONE), TASK.length, -1) * pattern[..., None]) @ W_O  # (B, T, d)
    out = cache["blocks.0.hook_attn_out"].clone()
    for first, slot in ((True, SECOND), (False, FIRST)):
        rows = [b for b, row in enumerate(ONE.tolist()) if (row[FIRST] >= FIRST_VARIABLE) == first]
        for b, donor in zip(rows, [rows[-1], *rows[:-1]], strict=True):
            out[b, -1] += sent[donor, slot] - sent[b, slot]
    expected = model.run_with_hooks(ONE, fwd_hooks=[("blocks.0.hook_attn_out", lambda x, point: out)])[:, -1]
    assert torch.allclose(logits(stack, attention.OTHER_LITERAL), expected, atol=1e-8)


def test_the_hand_made_model_needs_only_the_slots_of_variables():
    results = attention.operand_attention(HANDMADE, CONFIG, SEEN, 300)
    accuracy = {name: {c: x.float().mean().item() for c, x in own.correct.items()} for name, own in results.items()}
    assert list(accuracy) == list(attention.CHANGES_OF_SET) and all(a[UNCHANGED] == 1 for a in accuracy.values())
    assert accuracy[LITERALS]["no operand slots"] == 1
    for name in (TRAINED, BANNED):
        harmful = {change: a for change, a in accuracy[name].items() if a < 1}
        assert harmful.pop("no variable slot") < 0.7 and not harmful
    assert accuracy[TWO]["no first slot"] < 0.6 and accuracy[TWO]["no second slot"] < 0.6
    weights = results[TRAINED].weights
    assert (sum(weights.values()) <= 1).all() and weights["variable"].mean() > 0.4


def test_random_weights_are_at_chance_under_all_changes():
    correct = attention.operand_attention(random_stack(1), CONFIG, SEEN, 200)[TRAINED].correct
    assert all(x.float().mean() < 0.3 for change, x in correct.items() if change != attention.SET_LAYER_2)


def test_claims_and_the_table_on_a_network_that_attends_more_to_equals_than_to_the_literal():
    """Seed 39, one of the twelve; the table's numbers up to rounding."""
    network = networks_of(assignadd.open_run("census-two"), n=TABLE["n"])[0][0]
    (there,) = (m["sets"] for m in TABLE["models"] if m["seed"] == network.seed == 39)
    for name, own in table.row(network)["sets"].items():
        assert own["accuracy"] == pytest.approx(there[name]["accuracy"], abs=2 / TABLE["n"])
        for change, (lost, *_) in own["lost"].items():
            value, low, high = there[name]["lost"][change]
            assert low <= value <= high and lost == pytest.approx(value, abs=6 / TABLE["n"]), change
    records = {claim.id: judge(claim, [network], "") for claim in claims.CLAIMS}
    assert len(records) == 6 and {record.verdict for record in records.values()} == {"holds"}


def test_the_predictions_hold_in_the_22_seeds_of_the_table():
    assert [line.partition(";")[0] for line in table.results()] == [
        f"{prediction.id}: holds in 22 of 22 seeds" for prediction in table.PREDICTIONS
    ]
    census = polars.read_parquet(ROOT / "assignadd" / "results" / "census.parquet").filter(polars.col("step") == 50_000)
    binding = census.filter(polars.col("1-var train (final)") >= 0.95)
    often_not = binding["attn_l1_equal_to_operands (1-var, training law) (final)"] < 0.99
    assert sorted(binding.filter(often_not)["seed"]) == sorted(
        m["seed"] for m in TABLE["models"] if m["run"] == "twelve"
    )
    missed = binding["1-var var-restricted (final)"] < 0.95
    assert ((missed & often_not).sum(), (missed & ~often_not).sum(), len(binding)) == (7, 5, 105)
