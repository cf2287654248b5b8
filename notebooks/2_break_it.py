# %% [markdown]
# # 2. Break it: causes, not correlations
#
# In the first notebook you read a circuit off attention patterns and weights. That was observation. A part of a
# network is a *cause* of its answers if the answers change, in the way you predict, when you change that part and
# nothing else.
#
# - Time: about 45 minutes. You need the first notebook, or its last section.
# - **Write your prediction down before you run a cell.** An explanation that could not have failed has not been
#   tested.
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

import torch

from assignadd.task import EVAL_SETS, Sampler, Vocabulary, answers, operand_slots, roles

torch.set_grad_enabled(False)
run = aa.open_run("census-six")
task, SEED = run.config.task, 0
model = aa.load(run, seed=SEED)
one_variable = next(s for s in EVAL_SETS if s.name == "1-var train")
tokens = Sampler([task], run.seen[[run.index_of(SEED)]], [SEED], one_variable).sample(0, 300).tokens[0]
labels = answers(task, tokens)
before = model.answer_logits(tokens).argmax(-1)

print("some of the sums:", *(aa.render(row, task) for row in tokens[:3].tolist()), sep="\n  ")
print(f"accuracy on {len(tokens)} one-variable sums: {(before == labels).float().mean():.3f}")

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
# ## Remove an edge
#
# A hook sees an activation and may return another one. Attention patterns have shape (sequence, head, query,
# key).
#
# ### Exercise 1: no attention from `=` to one key
#
# Complete `answers_without`: the model's answers, shape (B,), when in one layer (1 or 2) the weight from `=` to
# one position is set to zero. The position may differ between sequences: `keys` has shape (B,). Do not
# renormalise the row: we remove what flows along one edge and leave the other edges as they are.

# %% cellView="form" jupyter={"source_hidden": true} tags=["check"]
# @title Check of exercise 1 (no need to read it)
first, second = operand_slots(task)
is_first = roles(task, tokens).is_variable[:, 0]  # whether the first operand is the variable
variable_slot = torch.where(is_first, first, second)
literal_slot = torch.where(is_first, second, first)


def _with_pattern(model, tokens, layer, change):
    hook = f"blocks.{layer - 1}.attn.hook_pattern"
    logits = model.run_with_hooks(tokens, fwd_hooks=[(hook, lambda pattern, point: change(pattern.clone()))])
    return logits[:, -1].argmax(-1)


def check_answers_without(attempt):
    some, keys = tokens[:60], variable_slot[:60]
    each = torch.arange(len(some))

    def removed(pattern):
        pattern[each, :, -1, keys] = 0
        return pattern

    def normalised(pattern):
        pattern = removed(pattern)
        return pattern / pattern.sum(-1, keepdim=True)

    def for_all_queries(pattern):
        pattern[each, :, :, keys] = 0
        return pattern

    def everywhere(pattern):
        pattern[:, :, -1, keys] = 0
        return pattern

    for layer in (1, 2):
        found = attempt(model, some, layer, keys)
        if found is NotImplemented:
            return (
                "Not done yet. The hook returns a changed copy of the pattern: which entry of = is zero in sequence b?"
            )
        if not isinstance(found, torch.Tensor) or found.shape != keys.shape:
            return f"answers_without() should be a tensor of shape {tuple(keys.shape)}: one number for each sequence."
        if torch.equal(found, _with_pattern(model, some, layer, removed)):
            continue
        if torch.equal(found, model.answer_logits(some).argmax(-1)):
            return (
                "Nothing changed: does your hook return the new pattern, and is it in the right layer (1 is blocks.0)?"
            )
        if torch.equal(found, _with_pattern(model, some, 3 - layer, removed)):
            return "This is the other layer: layer 1 is blocks.0."
        if torch.equal(found, _with_pattern(model, some, layer, normalised)):
            return "You renormalise the row: then the other edges get stronger, and two things change at once."
        if torch.equal(found, _with_pattern(model, some, layer, everywhere)):
            return "You remove all of `keys` in every sequence: sequence b loses the position keys[b] alone."
        if torch.equal(found, _with_pattern(model, some, layer, for_all_queries)):
            return "You remove the edge for every query: only the last query, =, should lose it."
        return (
            f"Layer {layer}: not the answers expected. Is only the weight from = to keys[b] zero, in every sequence b?"
        )
    return "Correct."


# %%
def answers_without(model, tokens: torch.Tensor, layer: int, keys: torch.Tensor) -> torch.Tensor:
    """The answers (B,) with the weight from = to position keys[b] set to zero in sequence b."""
    return NotImplemented  # your code here


check(1, answers_without)


# %% cellView="form" jupyter={"source_hidden": true} tags=["solution"]
# @title Solution of exercise 1
def answers_without(model, tokens: torch.Tensor, layer: int, keys: torch.Tensor) -> torch.Tensor:
    def remove(pattern, hook):
        pattern = pattern.clone()
        pattern[torch.arange(len(tokens)), :, -1, keys] = 0
        return pattern

    hook = f"blocks.{layer - 1}.attn.hook_pattern"
    return model.run_with_hooks(tokens, fwd_hooks=[(hook, remove)])[:, -1].argmax(-1)


check(1, answers_without)

# %% [markdown]
# ## Which edges matter?
#
# In layer 1 the top two keys of `=` were the two operands. In a one-variable sum, one of them is a variable and
# one a literal. Before you go on, predict: how much accuracy is lost without the edge to the variable? And
# without the edge to the literal?
#
# ### Exercise 2: a loss with its interval
#
# Each sequence is answered before and after the change, so use the *paired* differences d = right before - right
# after (each -1, 0 or 1). Complete `loss_with_interval`: the mean of d, and the ends of its 95 % interval, mean
# -+ 1.96 s / sqrt(n), with s the standard deviation of d.


# %% cellView="form" jupyter={"source_hidden": true} tags=["check"]
# @title Check of exercise 2
def check_loss_with_interval(attempt):
    right = torch.arange(200) < 190  # right before: 190 of 200
    after = right & (torch.arange(200) >= 40)
    found = attempt(right, after)
    if found is NotImplemented:
        return "Not done yet. What is d for each sequence? Bools have no mean, numbers do."
    if len(found) != 3:
        return "Return three numbers: the loss, the lower and the upper end."
    loss, low, high = map(float, found)
    d = right.double() - after.double()
    mean, s = d.mean().item(), d.std().item()
    if abs(loss + mean) < 1e-6:
        return "The sign is wrong: a loss is before minus after."
    if abs(loss - mean) > 1e-6:
        return f"The loss is {loss:.4f}, expected {mean:.4f}, the mean of the differences."
    p, q = right.double().mean().item(), after.double().mean().item()
    unpaired = 1.96 * math.sqrt((p * (1 - p) + q * (1 - q)) / len(d))
    half = (high - low) / 2
    if abs(half - 1.96 * s) < 1e-3:
        return "This is the spread of single differences: divide s by sqrt(n) for that of their mean."
    if abs(half - unpaired) < 1e-3:
        return "This treats the accuracies as of different sequences; they are of the same ones: use the differences."
    if abs(half - 1.96 * s / math.sqrt(len(d))) > 1e-3 or abs((high + low) / 2 - mean) > 1e-3:
        return f"The interval is [{low:.4f}, {high:.4f}]: expected mean -+ 1.96 s / sqrt(n)."
    return "Correct."


# %%
def loss_with_interval(right_before: torch.Tensor, right_after: torch.Tensor) -> tuple[float, float, float]:
    """The accuracy lost, and the ends of its 95 % interval."""
    return NotImplemented  # your code here


check(2, loss_with_interval)


# %% cellView="form" jupyter={"source_hidden": true} tags=["solution"]
# @title Solution of exercise 2
def loss_with_interval(right_before: torch.Tensor, right_after: torch.Tensor) -> tuple[float, float, float]:
    d = right_before.float() - right_after.float()
    mean, half = d.mean().item(), 1.96 * d.std().item() / math.sqrt(len(d))
    return mean, mean - half, mean + half


check(2, loss_with_interval)

# %%
value_positions = roles(task, tokens).value_positions
EDGES = {
    "layer 1, the variable's slot": (1, variable_slot),
    "layer 1, the literal's slot": (1, literal_slot),
    "layer 2, the variable's value": (2, torch.where(is_first, value_positions[:, 0], value_positions[:, 1])),
    "layer 2, the literal": (2, literal_slot),
}
pattern = model.run_with_cache(tokens, names_filter="blocks.0.attn.hook_pattern")[1]["blocks.0.attn.hook_pattern"]
losses = {}
for edge, (layer, keys) in EDGES.items():
    after = answers_without(model, tokens, layer, keys)
    losses[edge] = loss_with_interval(before == labels, after == labels)
    print(f"without {edge:30} {losses[edge][0]:6.3f} lost  [{losses[edge][1]:.3f}, {losses[edge][2]:.3f}]")
on_literal = pattern[torch.arange(len(tokens)), 0, -1, literal_slot].mean()
print(f"(mean attention from = to the literal's slot in layer 1: {on_literal:.2f})")

# %% [markdown]
# Compare the first two lines with your prediction. In layer 1 `=` attends to the literal (the last line says how
# much), but the answer hardly needs this edge: layer 2 finds the literal without it. Attention to a literal in
# layer 1 is a *correlate* of the computation, attention to a variable is a *cause*.
#
# A pattern may also be absent where its cause is at work: the two networks of `census-two` bind well without
# having both operands on top in layer 1. What they need is the edge to the variable:

# %%
two = aa.open_run("census-two")
for seed in [member.seed for member in two.members]:
    other = aa.load(two, seed=seed)
    sums = Sampler([task], two.seen[[two.index_of(seed)]], [seed], one_variable).sample(0, 200).tokens[0]
    truth = answers(task, sums)
    logits, cache = other.run_with_cache(sums, names_filter="blocks.0.attn.hook_pattern")
    answered = logits[:, -1].argmax(-1) == truth
    slots = torch.tensor(operand_slots(task))
    top = cache["blocks.0.attn.hook_pattern"][:, 0, -1].topk(2).indices.sort().values
    variable = torch.where(roles(task, sums).is_variable[:, 0], first, second)
    lost = loss_with_interval(answered, answers_without(other, sums, 1, variable) == truth)[0]
    print(
        f"seed {seed}: operands on top in {(top == slots).all(-1).float().mean():.2f} of the sums, "
        f"accuracy {answered.float().mean():.3f}; without the variable's slot {lost:.2f} of it is lost"
    )

# %% [markdown]
# ## Say what you want the model to answer
#
# Removing a part shows that it is needed, but not what it says. A stronger test replaces it, so that your
# explanation predicts a particular *wrong* answer. The claim: what layer 1 writes into `=` says *which variable
# is asked for*. So take two sums with the same assignments that ask for different variables,
#
#     base:   c=1, b=17, a=42, b+19=?
#     donor:  c=1, b=17, a=42, c+19=?
#
# and put the donor's layer-1 output at `=` into the base. If the claim is true, the base is answered as if it
# asked for `c`.
#
# ### Exercise 3: patch the question
#
# Complete `answers_patched`: the answers (B,) to `base` when the output of layer 1's attention
# (`blocks.0.hook_attn_out`, shape (B, T, d)) at the given positions is that of `donor`. `positions` is a list of
# positions, the same for all sequences.

# %% cellView="form" jupyter={"source_hidden": true} tags=["check"]
# @title Check of exercise 3, and the pairs of sums
vocabulary = Vocabulary(task)
PLUS, EQUALS = task.prefix, task.length - 1  # positions of + and =
several = roles(task, tokens).assigned.sum(1) >= 2
base = tokens[several]
asked = base[torch.arange(len(base)), variable_slot[several]]  # the variable that is asked for
is_variable = (base >= vocabulary.first_variable) & (torch.arange(task.length) < task.prefix)
other_at = (is_variable & (base != asked[:, None])).int().argmax(1)  # the first other assignment
other_variable = base[torch.arange(len(base)), other_at]
donor = base.clone()
donor[torch.arange(len(base)), variable_slot[several]] = other_variable
base_labels, donor_labels = answers(task, base), answers(task, donor)


def check_answers_patched(attempt):
    some, other = base[:60], donor[:60]
    hook = "blocks.0.hook_attn_out"
    source = model.run_with_cache(other)[1]

    def patched(name, at):
        def put(x, point):
            x = x.clone()
            x[:, at] = source[name][:, at]
            return x

        return model.run_with_hooks(some, fwd_hooks=[(name, put)])[:, -1].argmax(-1)

    for position in ([EQUALS], [PLUS], [second, EQUALS]):
        found = attempt(some, other, position)
        if found is NotImplemented:
            return "Not done yet. Two passes: one over the donor to read the output, one over the base to put it in."
        if not isinstance(found, torch.Tensor) or found.shape != (len(some),):
            return f"answers_patched() should be a tensor of shape ({len(some)},): the argmax at the last position."
        if torch.equal(found, patched(hook, position)):
            continue
        if torch.equal(found, model.answer_logits(some).argmax(-1)):
            return "Nothing changed: does your hook return the new activation?"
        if any(
            torch.equal(found, patched(*edit)) for edit in ((hook, slice(None)), ("blocks.1.hook_attn_out", position))
        ):
            return "You replace every position, or layer 2's output: only the given positions change, in layer 1."
        if torch.equal(found, patched("blocks.0.hook_resid_post", position)):
            return "You patch the whole residual, which also holds the tokens: use blocks.0.hook_attn_out."
        return (
            f"Not the answers expected at positions {position}. Is the source the donor's {hook} at the same positions?"
        )
    return "Correct."


# %%
def answers_patched(base: torch.Tensor, donor: torch.Tensor, positions: list[int]) -> torch.Tensor:
    """The answers to `base` with layer 1's attention output at these positions taken from `donor`."""
    return NotImplemented  # your code here


check(3, answers_patched)


# %% cellView="form" jupyter={"source_hidden": true} tags=["solution"]
# @title Solution of exercise 3
def answers_patched(base: torch.Tensor, donor: torch.Tensor, positions: list[int]) -> torch.Tensor:
    hook = "blocks.0.hook_attn_out"
    source = model.run_with_cache(donor, names_filter=hook)[1][hook]

    def put(x, point):
        x = x.clone()
        x[:, positions] = source[:, positions]
        return x

    return model.run_with_hooks(base, fwd_hooks=[(hook, put)])[:, -1].argmax(-1)


check(3, answers_patched)

# %%
differ = base_labels != donor_labels
variable_first = is_first[several]
KINDS = {"variable first": differ & variable_first, "variable second": differ & ~variable_first}


def patched_shares(positions: list[int]) -> dict[str, tuple[float, float]]:
    """By the slot of the variable, the shares that answer as the base asks and as the donor asks."""
    found = answers_patched(base, donor, positions)
    return {
        kind: tuple(float((found == truth)[rows].float().mean()) for truth in (base_labels, donor_labels))
        for kind, rows in KINDS.items()
    }


at_equals, at_plus = patched_shares([EQUALS]), patched_shares([PLUS])
for where, shares in (("at =", at_equals), ("control, at +", at_plus)):
    for kind, (own, predicted) in shares.items():
        print(f"{where:14} {kind:16} as the base asks: {own:.3f}   as the donor asks: {predicted:.3f}")

# %% [markdown]
# The control, the same patch at a position that should not matter, does nothing. A control is part of the
# experiment: without it, a patch that breaks everything may look like a success.
#
# The patch at `=` makes the network leave its own question in nearly all sums. But does it answer the donor's
# question? With the variable in the second slot, yes. With the variable first, often not: the prediction fails
# there, and a failed prediction is worth more than a confirmed one. Where does the answer come from then? Look at
# layer 1's picture in notebook 1 again: an assigned number attends to the token before it. What is before a
# *literal in the second slot*? The variable in the first slot. So this literal, too, carries a tag, the base's
# variable, and a query for the donor's variable does not match it. If that is the reason, patching the second
# slot as well must repair it:

# %%
at_both = patched_shares([second, EQUALS])
for kind, (own, predicted) in at_both.items():
    print(f"at = and at the second slot, {kind:16} as the base asks: {own:.3f}   as the donor asks: {predicted:.3f}")

# %% [markdown]
# ### Exercise 4: exchange two tags
#
# The other half of the claim: what layer 1 writes into an assigned number is a *tag*, the name of its variable.
# So exchange the tags of two numbers, the one that is asked for and another one. Complete `answers_exchanged`:
# the answers to `base` when `blocks.0.hook_attn_out` at positions p[b] and q[b] is exchanged in every sequence b.
# What do you predict the model answers?

# %% cellView="form" jupyter={"source_hidden": true} tags=["check"]
# @title Check of exercise 4
each = torch.arange(len(base))
p = roles(task, base).value_positions[each, torch.where(is_first[several], 0, 1)]  # the number that is asked for
q = other_at + 1  # the number of the other variable


def check_answers_exchanged(attempt):
    some, i = slice(0, 60), torch.arange(60)

    def edited(copy_only):
        def put(x, point):
            new = x.clone()
            new[i, p[some]] = x[i, q[some]]
            if not copy_only:
                new[i, q[some]] = x[i, p[some]]
            return new

        return model.run_with_hooks(base[some], fwd_hooks=[("blocks.0.hook_attn_out", put)])[:, -1].argmax(-1)

    found = attempt(base[some], p[some], q[some])
    if found is NotImplemented:
        return "Not done yet. Write to a copy and read from the old activation; each sequence has a p and a q."
    if not isinstance(found, torch.Tensor) or found.shape != i.shape:
        return f"answers_exchanged() should be a tensor of shape {tuple(i.shape)}."
    if torch.equal(found, edited(False)):
        return "Correct."
    if torch.equal(found, edited(True)):
        return "You overwrite one tag before you have read it: take both from the old activation, and write to a copy."
    if torch.equal(found, model.answer_logits(base[some]).argmax(-1)):
        return "Nothing changed: does your hook return the new activation?"
    return "Not the answers expected. Does sequence b use p[b] and q[b] alone?"


# %%
def answers_exchanged(base: torch.Tensor, p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """The answers with layer 1's attention output at positions p[b] and q[b] exchanged."""
    return NotImplemented  # your code here


check(4, answers_exchanged)


# %% cellView="form" jupyter={"source_hidden": true} tags=["solution"]
# @title Solution of exercise 4
def answers_exchanged(base: torch.Tensor, p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    i = torch.arange(len(base))

    def exchange(x, point):
        new = x.clone()
        new[i, p], new[i, q] = x[i, q], x[i, p]
        return new

    return model.run_with_hooks(base, fwd_hooks=[("blocks.0.hook_attn_out", exchange)])[:, -1].argmax(-1)


check(4, answers_exchanged)

# %%
found = answers_exchanged(base, p, q)[differ]
own, predicted = (float((found == truth[differ]).float().mean()) for truth in (base_labels, donor_labels))
exchanged_shares = own, predicted
print(f"tags exchanged: answers with its own value {own:.3f}, with the other variable's value {predicted:.3f}")

# %% [markdown]
# ## What you can say now
#
# - Needed: attention to the variable in layer 1, and to both values in layer 2. Not needed: attention to the
#   literal in layer 1.
# - Carried: layer 1's output at `=` says which variable is asked for, and at a number (also at a literal behind a
#   variable) which variable it belongs to. Replacing them makes the network answer what you chose.
#
# The same tests on more sequences and with more parts: `assignadd intervene interchange census-six`, and the finding
# `operand_attention` of the repository.
#
# **Further exercises, without solutions.**
# 1. Repeat the table of edges for sums of two variables and of two literals. Which predictions change?
# 2. Remove the edge by its score (set it to minus infinity before the softmax). Why is the result different?
# 3. Patch with a donor that asks for a variable that the base does not assign. What does the network answer, and
#    why?
