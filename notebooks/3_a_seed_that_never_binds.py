# %% [markdown]
# # 3. A seed that never binds
#
# The paper studies one network and expects its findings "to hold across different initializations". Here you look
# at networks that were trained in the same way, from other seeds, and never learned to look a variable up. What
# do they do instead? How common are they? Could one have known early?
#
# - Time: about 45 minutes. You need the first notebook, or its last section.
# - Each exercise says whether your function is right; `hint(3)` looks at your last attempt at exercise 3. Running the
#   folded solution replaces your function.

# %%
try:
    import assignadd as aa
except ModuleNotFoundError:  # as on Colab: pip install assignadd, or a wheel that you uploaded beside the notebook
    import glob
    import subprocess
    import sys

    wheels = glob.glob("assignadd-*.whl")
    subprocess.check_call([sys.executable, "-m", "pip", "install", "--quiet", *(wheels or ["assignadd"])])
    import assignadd as aa

import math

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import torch

from assignadd.ledger import Measured
from assignadd.task import EVAL_SETS, Sampler, answers, operand_slots, roles

torch.set_grad_enabled(False)
run = aa.open_run("census-six")
task, N = run.config.task, run.config.task.modulus
recorded = aa.metrics(run)  # a row per network and evaluation
print(recorded.select("seed", "step", "0-var train", "1-var train", "2-var train", "1-var var-restricted"))

# %% cellView="form" jupyter={"source_hidden": true} tags=["check"]
# @title Checks and hints (no need to read them)
said: dict[int, str] = {}  # what was seen in the last attempt at each exercise


def check(exercise: int, attempt) -> None:
    """Says whether an attempt is right."""
    said[exercise] = globals()[f"check_{attempt.__name__}"](attempt)
    print("Right." if said[exercise] == "Correct." else f"Not right yet. hint({exercise}) gives a hint.")


def hint(exercise: int) -> None:
    """Says what to think about, after the last attempt at an exercise."""
    print(said.get(exercise, f"Run the cell of exercise {exercise} first."))


# %% [markdown]
# ## Who binds?
#
# The columns are accuracies on evaluation sets: `1-var train` has sums with one variable, of the kind that
# training showed. A network *binds* if it answers at least 95 % of those at its last evaluation.
#
# ### Exercise 1
#
# Complete `binding_seeds`: the set of seeds that bind, from a table such as the one above (in general it has
# several steps).


# %% cellView="form" jupyter={"source_hidden": true} tags=["check"]
# @title Check of exercise 1 (no need to read it)
def check_binding_seeds(attempt):
    made = pl.DataFrame(
        {
            "seed": [5, 5, 6, 6, 7, 7, 8, 8],
            "step": [100, 200] * 4,
            "0-var train": [1.0] * 8,
            "1-var train": [0.50, 0.99, 0.97, 0.60, 0.50, 0.95, 0.50, 0.70],
            "2-var train": [0.40, 0.40, 0.40, 0.99, 0.40, 0.40, 0.40, 0.40],
            "1-var var-restricted": [0.10, 0.20, 0.10, 0.97, 0.10, 0.97, 0.10, 0.20],
        }
    )
    found = attempt(made)
    if found is NotImplemented:
        return "Not done yet. Two conditions on a row: which step, and which accuracy?"
    found = set(found)
    if found == {5, 6, 7, 8}:
        return "All seeds? They all add (`0-var train`); binding is about sums with one variable, `1-var train`."
    if 6 in found and found >= {5, 7}:
        return "You count a seed that was above 95 % once and fell again: take the rows of the last step."
    if 6 in found:
        return "You read another column: the rule is about `1-var train`."
    if found == {5}:
        return "Does *at least* 95 % include 95 %?"
    return "Correct." if found == {5, 7} else f"For the table of the check you return {found}, expected {{5, 7}}."


# %%
def binding_seeds(table: pl.DataFrame) -> set[int]:
    """The seeds that bind at the last step."""
    return NotImplemented  # your code here


check(1, binding_seeds)


# %% cellView="form" jupyter={"source_hidden": true} tags=["solution"]
# @title Solution of exercise 1
def binding_seeds(table: pl.DataFrame) -> set[int]:
    last = table.filter(pl.col("step") == pl.col("step").max())
    return set(last.filter(pl.col("1-var train") >= 0.95)["seed"])


check(1, binding_seeds)

# %%
seeds = [member.seed for member in run.members]
bind = sorted(binding_seeds(recorded))
stuck = sorted(set(seeds) - set(bind))
print("bind:", bind, "  never bind:", stuck)

# %% [markdown]
# ## Where does a stuck network look?
#
# Take sums of a variable and a literal. In a network that binds, layer 1 tells `=` *which variable* is asked for
# (notebook 2), so there `=` has to attend to the slot of the variable.
#
# ### Exercise 2: the attention of `=` to some keys
#
# Complete `attention_on`: the weight that `=` gives to the keys in a mask (B, T), added up over these keys and
# averaged over sequences, in a layer (1 or 2).


# %% cellView="form" jupyter={"source_hidden": true} tags=["check"]
# @title Check of exercise 2, and the sequences
def drawn(seed: int, name: str, n: int = 200) -> torch.Tensor:
    """Sequences of an evaluation set, with the split of pairs of this seed."""
    evalset = next(s for s in EVAL_SETS if s.name == name)
    return Sampler([task], run.seen[[run.index_of(seed)]], [seed], evalset).sample(0, n).tokens[0]


models = {seed: aa.load(run, seed=seed) for seed in (bind[0], stuck[0])}


def masks(tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    """Masks (B, T) of the keys of each kind, for sums of a variable and a literal."""
    role, at = roles(task, tokens), torch.arange(task.length)
    first, second = operand_slots(task)
    variable = torch.where(role.is_variable[:, 0], first, second)[:, None]
    return {
        "the variable's slot": at == variable,
        "the literal's slot": at == first + second - variable,
        "assigned numbers": role.assigned,
        "the right number": (at == role.value_positions[role.is_variable][:, None]),
    }


def check_attention_on(attempt):
    model, tokens = models[stuck[0]], drawn(stuck[0], "1-var train", 32)
    cache = model.run_with_cache(tokens)[1]
    patterns = {layer: cache[f"blocks.{layer - 1}.attn.hook_pattern"][:, 0] for layer in (1, 2)}
    for layer in (1, 2):
        for mask in masks(tokens).values():
            found = attempt(model, tokens, layer, mask)
            if found is NotImplemented:
                return "Not done yet. In which row is = the query? Only the keys in the mask count."
            if isinstance(found, torch.Tensor) and found.numel() != 1:
                return f"attention_on() has shape {tuple(found.shape)}: it is one number, the mean over sequences."
            rows = {at: pattern[:, -1] for at, pattern in patterns.items()}
            right = (rows[layer] * mask).sum(1).mean().item()
            close = lambda value: abs(float(found) - value) < 1e-5 < abs(value - right)  # noqa: B023, E731
            if close((rows[layer] * mask).mean().item()) or close(rows[layer][mask].mean().item()):
                return "You average over keys: add the weights of the keys in the mask, then average over sequences."
            if close((rows[3 - layer] * mask).sum(1).mean().item()):
                return "This is the other layer: layer 1 is blocks.0."
            if close((patterns[layer][:, :, -1] * mask).sum(1).mean().item()):
                return "You took = as the key: it is the query, a row of the pattern."
            if close((patterns[layer] * mask[:, None]).sum(-1).mean().item()):
                return "You average over all queries: only the last query is =."
            if abs(float(found) - right) > 1e-5:
                return f"Layer {layer}: {float(found):.4f}, expected {right:.4f}."
    return "Correct."


# %%
def attention_on(model, tokens: torch.Tensor, layer: int, mask: torch.Tensor) -> float:
    """The mean weight from = to all keys in the mask."""
    return NotImplemented  # your code here


check(2, attention_on)


# %% cellView="form" jupyter={"source_hidden": true} tags=["solution"]
# @title Solution of exercise 2
def attention_on(model, tokens: torch.Tensor, layer: int, mask: torch.Tensor) -> float:
    hook = f"blocks.{layer - 1}.attn.hook_pattern"
    row = model.run_with_cache(tokens, names_filter=hook)[1][hook][:, 0, -1]  # (B, T)
    return (row * mask).sum(1).mean().item()


check(2, attention_on)

# %%
looks = {}
for seed, model in models.items():
    tokens = drawn(seed, "1-var train", 150)
    print(f"seed {seed}, which {'binds' if seed in bind else 'never binds'}: mean attention from =")
    for layer in (1, 2):
        for kind, mask in masks(tokens).items():
            looks[seed, layer, kind] = attention_on(model, tokens, layer, mask)
        print(f"  layer {layer}: " + ", ".join(f"{looks[seed, layer, kind]:.2f} on {kind}" for kind in masks(tokens)))

# %% [markdown]
# In layer 1, `=` of the network that binds attends to the variable that is asked for. `=` of the stuck network
# attends to the literal and to next to nothing else: it fetches a *number* already in layer 1. Then layer 2 goes
# to the assigned numbers, the right one and the others, without knowing the name of the variable (`=` sees the
# variable's slot in layer 2 only, too late to look anything up).
#
# If that is so, cutting the edge to the variable's slot in layer 1 costs the stuck network nothing:

# %%
edge_lost = {}
for seed, model in models.items():
    tokens = drawn(seed, "1-var train")
    mask, truth = masks(tokens)["the variable's slot"], answers(task, tokens)

    def cut(pattern, hook, mask=mask):
        pattern = pattern.clone()
        pattern[:, :, -1] = pattern[:, :, -1].masked_fill(mask[:, None], 0)
        return pattern

    after = model.run_with_hooks(tokens, fwd_hooks=[("blocks.0.attn.hook_pattern", cut)])[:, -1].argmax(-1)
    before = model.answer_logits(tokens).argmax(-1)
    edge_lost[seed] = ((before == truth).float().mean() - (after == truth).float().mean()).item()
    print(f"seed {seed}: accuracy lost without the edge from = to the variable in layer 1: {edge_lost[seed]:.3f}")

# %% [markdown]
# A network that does not know which variable is asked for cannot look it up. What does it answer?
#
# ## What does it answer?
#
# ### Exercise 3: accuracy by the number of assignments
#
# If a network cannot tell which number belongs to the variable, it may guess among the assigned numbers. Complete
# `accuracy_by_assignments`: a dictionary from the number of assignments in the sequence (1, 2, ...) to the
# accuracy on those sequences. `roles(task, tokens).assigned` is a mask of the assigned numbers, (B, T).


# %% cellView="form" jupyter={"source_hidden": true} tags=["check"]
# @title Check of exercise 3
def check_accuracy_by_assignments(attempt):
    model, tokens = models[stuck[0]], drawn(stuck[0], "1-var train", 100)
    right = model.answer_logits(tokens).argmax(-1) == answers(task, tokens)
    n = roles(task, tokens).assigned.sum(1)
    expected = {k: right[n == k].float().mean().item() for k in n.unique().tolist()}
    found = attempt(model, tokens)
    if found is NotImplemented:
        return "Not done yet. For each sequence: how many assigned numbers, and is the answer right?"
    if not isinstance(found, dict):
        return f"accuracy_by_assignments() returns a {type(found).__name__}, expected a dictionary {{1: ..., 2: ...}}."
    if any(isinstance(k, torch.Tensor) for k in found):
        return "The keys are tensors: make them numbers with .tolist() or .item()."
    if set(found) != set(expected):
        return f"The keys are {sorted(found)}, expected the numbers of assignments {sorted(expected)}."
    wrong = [k for k, value in expected.items() if abs(float(found[k]) - value) > 1e-5]
    if wrong and all(abs(float(found[k]) - right[n == k].float().sum().item()) < 1e-5 for k in expected):
        return "These are counts: divide by the number of sequences with that many assignments (mean, not sum)."
    if wrong and all(abs(float(found[k]) - (right & (n == k)).float().mean().item()) < 1e-5 for k in expected):
        return "You divide by all sequences: divide by those with that many assignments."
    return (
        f"For {wrong[0]} assignments: {float(found[wrong[0]]):.3f}, expected {expected[wrong[0]]:.3f}."
        if wrong
        else "Correct."
    )


# %%
def accuracy_by_assignments(model, tokens: torch.Tensor) -> dict[int, float]:
    """The accuracy on the sequences with each number of assignments."""
    return NotImplemented  # your code here


check(3, accuracy_by_assignments)


# %% cellView="form" jupyter={"source_hidden": true} tags=["solution"]
# @title Solution of exercise 3
def accuracy_by_assignments(model, tokens: torch.Tensor) -> dict[int, float]:
    right = (model.answer_logits(tokens).argmax(-1) == answers(task, tokens)).float()
    n = roles(task, tokens).assigned.sum(1)
    return {k: right[n == k].mean().item() for k in n.unique().tolist()}


check(3, accuracy_by_assignments)

# %%
by_number = {seed: accuracy_by_assignments(model, drawn(seed, "1-var train", 600)) for seed, model in models.items()}
figure, axis = plt.subplots(figsize=(5, 3.2), layout="constrained")
for seed, found in by_number.items():
    axis.plot(list(found), list(found.values()), marker="o", label=f"seed {seed}")
axis.plot(list(found), [1 / k for k in found], color="grey", linestyle=":", label="a guess, 1/n")
axis.set(xlabel="assignments in the sequence", ylabel="accuracy", ylim=(0, 1.05))
axis.legend()
print({k: round(v, 2) for k, v in by_number[stuck[0]].items()}, "a guess:", {k: round(1 / k, 2) for k in found})

# %% [markdown]
# With one assignment there is nothing to confuse, and the stuck network is right. With more it falls like a
# guess, but stays *above* 1/n. It knows something. First: are its wrong answers made from assigned numbers at
# all?
#
# ### Exercise 4: candidates
#
# For a sum of a variable and a literal m, the *candidates* are (x + m) mod N for every assigned number x.
# Complete `explained`: the share of sequences in which the given answer is one of the candidates. `literals` has
# the literal of each sequence, (B,).


# %% cellView="form" jupyter={"source_hidden": true} tags=["check"]
# @title Check of exercise 4
def literals_of(tokens: torch.Tensor) -> torch.Tensor:
    """The literal operand of each one-variable sum."""
    role = roles(task, tokens)
    return torch.where(role.is_variable[:, 0], role.values[:, 1], role.values[:, 0])


def check_explained(attempt):
    tokens = torch.tensor(
        [aa.parse(text, task) for text in ("c=1, b=17, b+50=?", "d=9, e=20, 3+e=?", "a=4, f=8, a+40=?")]
    )
    literals = literals_of(tokens)
    if attempt(tokens, literals, literals) is NotImplemented:
        return "Not done yet. Make the sum for every position at once. At which positions is it a candidate?"
    cases = [
        ([51, 12, 48], 1.0, "numbers of the other variable count as well: it is about any assigned number"),
        ([(17 + 50) % N, 23, 44], 1.0, "a sum may exceed N - 1: take it modulo N"),
        ([50, 3, 40], 0.0, "the literal alone is no candidate; do you count positions without an assigned number?"),
        ([(50 + 50) % N, 6, (40 + 40) % N], 0.0, "assigned numbers only, not the literal in the operand slot"),
        ([1, 9, 8], 0.0, "a candidate is an assigned number *plus the literal*"),
        ([51, 0, 0], 1 / 3, "it is a share of sequences, each counted once"),
    ]
    for given, expected, reason in cases:
        found = float(attempt(tokens, torch.tensor(given), literals))
        if abs(found - expected) > 1e-5:
            return f"For the answers {given} you say {found:.3f}, expected {expected:.3f}: {reason}."
    return "Correct."


# %%
def explained(tokens: torch.Tensor, given: torch.Tensor, literals: torch.Tensor) -> float:
    """The share of sequences whose given answer is (an assigned number + the literal) mod N."""
    return NotImplemented  # your code here


check(4, explained)


# %% cellView="form" jupyter={"source_hidden": true} tags=["solution"]
# @title Solution of exercise 4
def explained(tokens: torch.Tensor, given: torch.Tensor, literals: torch.Tensor) -> float:
    candidates = (tokens + literals[:, None]) % N  # (B, T)
    return ((candidates == given[:, None]) & roles(task, tokens).assigned).any(1).float().mean().item()


check(4, explained)

# %%
tokens = drawn(stuck[0], "1-var train", 600)
given, literals = models[stuck[0]].answer_logits(tokens).argmax(-1), literals_of(tokens)
share_explained = explained(tokens, given, literals)
share_by_chance = explained(tokens, given.roll(1), literals)  # the answers to other sequences
print(f"answers that are an assigned number plus the literal: {share_explained:.3f} (by chance {share_by_chance:.3f})")

# %% [markdown]
# So it does add, and it adds an assigned number, but not always the right one. How does it choose? Recall the
# data: a part of all pairs of numbers is *held out*, never added in training. A candidate whose pair is held out
# can never have been right in training.

# %%
seen = run.seen[run.index_of(stuck[0])]  # seen[n, m]: whether training may add n + m
role = roles(task, tokens)
number = tokens.clamp(max=N - 1)
pairs = torch.where(
    role.is_variable[:, :1],
    seen[number, literals[:, None].expand_as(number)],
    seen[literals[:, None].expand_as(number), number],
)
chosen = ((tokens + literals[:, None]) % N == given[:, None]) & role.assigned
wrong = given != answers(task, tokens)
wrong_and_seen = ((chosen & pairs).any(1) & wrong).sum().item() / max((chosen.any(1) & wrong).sum().item(), 1)
others = role.assigned & ((tokens + literals[:, None]) % N != answers(task, tokens)[:, None])
others_seen = (others & pairs).sum().item() / others.sum().item()
print(f"wrong candidates whose pair is a seen one: {others_seen:.2f} of those it could choose")
print(f"                                           {wrong_and_seen:.2f} of those it does choose")

# %% [markdown]
# The stuck network has learned which pairs of numbers occur in training and rules the others out: a shortcut that
# pays on the training distribution only. It makes a prediction: where the *right* pair is held out, the network
# should do worse than a blind guess.

# %%
held_out = drawn(stuck[0], "1-var add-restricted", 500)
accuracy = (models[stuck[0]].answer_logits(held_out).argmax(-1) == answers(task, held_out)).float().mean().item()
guess = (1 / roles(task, held_out).assigned.sum(1)).mean().item()
print(
    f"one-variable sums of held-out pairs: accuracy {accuracy:.3f}, "
    f"a blind guess among the assigned numbers {guess:.3f}"
)

# %% [markdown]
# ## How common is it?
#
# The package has the curves of many more networks. `aa.table("census")` has a row per network and evaluation;
# columns that end in `(final)` come from a larger exam after the last step.
#
# ### Exercise 5: a share with its interval
#
# Complete `share_with_interval` for k of n: the share, and the ends of Wilson's 95 % interval,
#
#     (p + z^2/2n -+ z sqrt(p (1 - p)/n + z^2/4n^2)) / (1 + z^2/n),   z = 1.96


# %% cellView="form" jupyter={"source_hidden": true} tags=["check"]
# @title Check of exercise 5
def check_share_with_interval(attempt):
    for k, n in ((13, 20), (20, 20), (37, 50)):
        found = attempt(k, n)
        if found is NotImplemented:
            return "Not done yet. Compute the centre and half the width apart; both are over 1 + z^2/n."
        p, low, high = map(float, found)
        if abs(p - k / n) > 1e-9:
            return f"The share of {k} of {n} is {p:g}, expected {k / n:g}."
        half = 1.96 * math.sqrt(p * (1 - p) / n)
        if abs(low - (p - half)) < 1e-6 and abs(high - (p + half)) < 1e-6:
            return "This is the normal interval p -+ z sqrt(p (1 - p)/n): for 20 of 20 it has no width. Use Wilson's."
        expected = Measured.share(k, n, "sums")
        if abs(low - expected.low) > 1e-3 or abs(high - expected.high) > 1e-3:
            return f"{k} of {n}: [{low:.4f}, {high:.4f}], expected [{expected.low:.4f}, {expected.high:.4f}]."
    return "Correct."


# %%
def share_with_interval(k: int, n: int) -> tuple[float, float, float]:
    """The share k of n and the ends of its 95 % interval."""
    return NotImplemented  # your code here


check(5, share_with_interval)


# %% cellView="form" jupyter={"source_hidden": true} tags=["solution"]
# @title Solution of exercise 5
def share_with_interval(k: int, n: int) -> tuple[float, float, float]:
    p, z = k / n, 1.96
    half = z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    low, high = ((p + z**2 / (2 * n) + sign * half) / (1 + z**2 / n) for sign in (-1, 1))
    return p, low, high


check(5, share_with_interval)


# %%
def outcomes(table: pl.DataFrame) -> pl.DataFrame:
    """For each seed, whether it binds in its final exam."""
    last = table.filter(pl.col("step") == pl.col("step").max())
    return last.select("seed", binds=pl.col("1-var train (final)") >= 0.95).sort("seed")


census, authors = aa.table("census"), aa.table("authors")
ends = {"census": outcomes(census), "authors": outcomes(authors)}
for name, end in ends.items():
    share, low, high = share_with_interval(end["binds"].sum(), end.height)
    print(f"{name}: {end['binds'].sum()} of {end.height} seeds bind: {share:.2f} [{low:.2f}, {high:.2f}]")

# %% [markdown]
# ## Could one have known early?
#
# ### Exercise 6: a measure of separation
#
# Complete `auc`: the probability that a value drawn from `a` is larger than one drawn from `b`, ties counted
# half. It is 0.5 if the groups cannot be told apart, and 1 if every value of `a` is above every value of `b`.


# %% cellView="form" jupyter={"source_hidden": true} tags=["check"]
# @title Check of exercise 6
def check_auc(attempt):
    cases = [
        ([3, 4], [1, 2], 1.0),
        ([1, 2], [3, 4], 0.0),
        ([1, 1], [1, 1], 0.5),
        ([1, 2, 3], [2], 0.5),
        ([5, 1, 1, 1], [2, 0], 0.625),
    ]
    for a, b, expected in cases:
        found = attempt(np.array(a, float), np.array(b, float))
        if found is NotImplemented:
            return "Not done yet. Broadcasting compares every value of a with every value of b."
        if abs(float(found) - (1 - expected)) < 1e-9 and expected != 0.5:
            return "The other way round: count the pairs in which the value of a is the larger one."
        if abs(float(found) - expected) > 1e-9:
            ties = " Ties count half." if set(a) & set(b) else ""
            return f"auc({a}, {b}) is {float(found):g}, expected {expected:g}.{ties}"
    return "Correct."


# %%
def auc(a: np.ndarray, b: np.ndarray) -> float:
    """The probability that a value of a is larger than one of b, ties counted half."""
    return NotImplemented  # your code here


check(6, auc)


# %% cellView="form" jupyter={"source_hidden": true} tags=["solution"]
# @title Solution of exercise 6
def auc(a: np.ndarray, b: np.ndarray) -> float:
    return float(((a[:, None] > b) + 0.5 * (a[:, None] == b)).mean())


check(6, auc)

# %% [markdown]
# Now search: which column of the census, early in training, separates the seeds that will bind from those that
# never do? With this many columns, *some* column separates well by luck. So choose on the census, and judge on
# networks that had no part in the choice: the table `authors` (the same task with other names for its variables).

# %%
STEP = 1000


def separation(table: pl.DataFrame, end: pl.DataFrame, column: str) -> float:
    """The auc of a column at STEP, binding seeds against the others; 0.5 where it is not recorded."""
    early = table.filter(pl.col("step") == STEP).sort("seed")[column].cast(pl.Float64).to_numpy()
    binds = end["binds"].to_numpy()
    return auc(early[binds], early[~binds]) if np.isfinite(early).all() else 0.5


already = (census.filter(pl.col("step") == STEP)["1-var train"] >= 0.95).sum()
results = [c for c in census.columns[census.columns.index("0-var train") :] if not c.endswith("(final)")]
found = {column: separation(census, ends["census"], column) for column in results}
best = sorted(found, key=lambda column: -abs(found[column] - 0.5))[:5]
print(f"at step {STEP:,}, when {already} of the seeds bind already, of {len(results)} columns the best are:")
for column in best:
    fresh = separation(authors, ends["authors"], column)
    print(f"  {column:46} auc {found[column]:.2f} in the census, {fresh:.2f} on fresh seeds")

# %% [markdown]
# Does each of the five separate the fresh seeds as well? One that does not may have been chosen by luck, which is
# what a search among many columns invites. But few of the fresh seeds never bind, so their numbers are uncertain
# too: more seeds would tell. (`assignadd runs tables census` explains the columns.)
#
# **Further exercises, without solutions.**
# 1. Do the other two stuck seeds look the same? And what does `=` attend to in sums of two variables?
# 2. Where is the knowledge of seen pairs: does layer 2 attend less to a number whose pair with the literal is
#    held out, or is it MLP2?
# 3. Train a stuck seed longer (`assignadd train --seeds 1 --optim.steps 100000`): does it ever bind?
