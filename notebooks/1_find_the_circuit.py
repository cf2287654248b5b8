# %% [markdown]
# # 1. Find the circuit
#
# A two-layer transformer with one head per layer reads sequences such as
#
#     c=1, b=17, a=42, b+19=?
#
# and answers with the sum modulo N: here it looks `b` up, and adds 19 to what it finds. In this notebook you find
# out *how* it does that, with the tools of mechanistic interpretability: you read attention patterns, then
# weights.
#
# - Time: about 45 minutes. You need PyTorch, and to know what attention is.
# - Each exercise is a function to complete. Run its cell: it says whether your function is right. `hint(3)` looks at
#   your last attempt at exercise 3 and says what to think about.
# - Each exercise is followed by a folded solution. Running that cell replaces your function by ours, so the rest
#   always works. What you see below them was printed with our solutions.
#
# The study is the paper "Assign and Add: A Mechanistic Study of Compositional Arithmetic" (arXiv 2605.31497),
# section 5.

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

import matplotlib.pyplot as plt
import torch

from assignadd.measures import ov2_mlp2_accuracy, qk2_ov1_var_identity
from assignadd.model import OV, QK
from assignadd.task import EvalSet, Sampler, Vocabulary, answers, roles

torch.set_grad_enabled(False)
run = aa.open_run("census-six")  # six trained networks that come with the package
task = run.config.task
model = aa.load(run, seed=0)  # one of them, as a transformer with hooks
name = Vocabulary(task).name  # the text of a token

print(f"{sum(p.numel() for p in model.parameters()):,} parameters, trained for {run.step:,} steps; N = {task.modulus}")

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
# ## The model's input and output
#
# `aa.parse` turns text into tokens. A sequence has a fixed length: assignments are padded at the front, and the
# sum is always at the end as `+`, first operand, second operand, `=`. Calling the model gives logits over the
# numbers at *every* position, but only the last one, at `=`, was trained to be the answer.

# %%
tokens = torch.tensor([aa.parse("c=1, b=17, a=42, b+19=?", task)])
logits = model(tokens)
print("tokens:", *[name(t) for t in tokens[0].tolist()])
print("shape of the logits:", tuple(logits.shape), "(sequences, positions, numbers)")

# %% [markdown]
# ### Exercise 1: ask the model
#
# Complete `answer`: it takes a prompt and returns the number that the model answers, as an `int`.

# %% cellView="form" jupyter={"source_hidden": true} tags=["check"]
# @title Check of exercise 1 (no need to read it)
PROMPTS = ("c=1, b=17, a=42, b+19=?", "a=5, d=9, 7+d=?", "e=50, f=20, e+f=?", "l=3, 12+30=?")


def check_answer(attempt):
    for prompt in PROMPTS:
        tokens = torch.tensor([aa.parse(prompt, task)])
        logits, found = model(tokens), attempt(prompt)
        if found is NotImplemented:
            return "Not done yet. Which position of the logits answers, and which number has the largest logit there?"
        if isinstance(found, torch.Tensor):
            if found.numel() != 1:
                return f"answer() has shape {tuple(found.shape)}: you need one number, at the last position."
            return "answer() returns a tensor: make it a number with .item()."
        if found == logits[0].argmax().item() != logits[0, -1].argmax().item():
            return "You take the argmax over all positions at once: only the last position, at =, answers."
        if found != logits[0, -1].argmax().item():
            where = [t for t in range(task.length) if logits[0, t].argmax().item() == found]
            read = f" It is the prediction at position {where[0]}." if where else ""
            return f"answer({prompt!r}) is {found}, but the model says {logits[0, -1].argmax().item()} at =.{read}"
    return "Correct."


# %%
def answer(prompt: str) -> int:
    """The number that the model answers."""
    return NotImplemented  # your code here


check(1, answer)


# %% cellView="form" jupyter={"source_hidden": true} tags=["solution"]
# @title Solution of exercise 1
def answer(prompt: str) -> int:
    tokens = torch.tensor([aa.parse(prompt, task)])
    return model(tokens)[0, -1].argmax().item()


check(1, answer)

# %%
for prompt in PROMPTS:
    truth = answers(task, torch.tensor([aa.parse(prompt, task)])).item()
    print(f"{prompt:28} model: {answer(prompt):2}   sum: {truth:2}")

# %% [markdown]
# ## Where does `=` look?
#
# `model.run_with_cache` returns the logits and a dictionary of activations. Hook names count layers from 0, as in
# TransformerLens; we follow the paper and call them layer 1 (`blocks.0`) and layer 2 (`blocks.1`).

# %%
_, cache = model.run_with_cache(tokens)
labels = [name(t) for t in tokens[0].tolist()]
figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
for layer, axis in enumerate(axes, 1):
    axis.imshow(cache[f"blocks.{layer - 1}.attn.hook_pattern"][0, 0].numpy(), cmap="Blues", vmin=0, vmax=1)
    axis.set(title=f"attention of layer {layer}", xlabel="key", ylabel="query")
    axis.set_xticks(range(task.length), labels, fontsize=8)
    axis.set_yticks(range(task.length), labels, fontsize=8)

# %% [markdown]
# Look at the last row of each picture (the query `=`), and in layer 1 at the rows of the assigned numbers.
#
# ### Exercise 2: the two favourite keys of `=`
#
# Complete `top_two`: the positions of the two keys to which `=` attends most in a layer (1 or 2), as a set of two
# `int`s.


# %% cellView="form" jupyter={"source_hidden": true} tags=["check"]
# @title Check of exercise 2
def check_top_two(attempt):
    for prompt in PROMPTS:
        cache = model.run_with_cache(torch.tensor([aa.parse(prompt, task)]))[1]
        patterns = {layer: cache[f"blocks.{layer - 1}.attn.hook_pattern"][0, 0] for layer in (1, 2)}
        expected = {layer: set(pattern[-1].topk(2).indices.tolist()) for layer, pattern in patterns.items()}
        for layer in (1, 2):
            found = attempt(prompt, layer)
            if found is NotImplemented:
                return "Not done yet. The pattern has axes (sequence, head, query, key): which query is `=`?"
            if not isinstance(found, set):
                return f"top_two() returns a {type(found).__name__}: return a set of whole numbers, such as {{13, 14}}."
            if any(isinstance(position, torch.Tensor) for position in found):
                return "The set holds tensors, which never compare equal as members: make them whole numbers."
            if found == expected[3 - layer] != expected[layer]:
                return "These are the keys of the other layer: layer 1 is blocks.0, layer 2 is blocks.1."
            if found == set(patterns[layer][:, -1].topk(2).indices.tolist()) != expected[layer]:
                return "You read a column, the weights that = receives as a key; take the row in which = is the query."
            if found != expected[layer]:
                return f"top_two({prompt!r}, {layer}) is {found}, expected {expected[layer]}."
    return "Correct."


# %%
def top_two(prompt: str, layer: int) -> set[int]:
    """The two positions to which = attends most."""
    return NotImplemented  # your code here


check(2, top_two)


# %% cellView="form" jupyter={"source_hidden": true} tags=["solution"]
# @title Solution of exercise 2
def top_two(prompt: str, layer: int) -> set[int]:
    tokens = torch.tensor([aa.parse(prompt, task)])
    hook = f"blocks.{layer - 1}.attn.hook_pattern"
    pattern = model.run_with_cache(tokens, names_filter=hook)[1][hook]
    return set(pattern[0, 0, -1].topk(2).indices.tolist())


check(2, top_two)

# %%
for prompt in PROMPTS:
    words = [name(t) for t in aa.parse(prompt, task)]
    for layer in (1, 2):
        keys = ", ".join(f"{words[t]} (position {t})" for t in sorted(top_two(prompt, layer)))
        print(f"{prompt:26} layer {layer}: {keys}")

# %% [markdown]
# Layer 1 finds the two *operands*, as they are written. Layer 2 finds their two *values*: for a variable that is
# the number behind its assignment, for a literal the literal itself. Four prompts are an anecdote, so measure it.
#
# ### Exercise 3: how often?
#
# Complete `share_at_values`: the share of sequences in which the top two keys of `=` in layer 2 are the positions
# of both values. `roles(task, tokens).value_positions` has these positions, shape (sequences, 2), first operand
# first.


# %% cellView="form" jupyter={"source_hidden": true} tags=["check"]
# @title Check of exercise 3, and the sequences
def drawn(n_vars: int, n: int = 150) -> torch.Tensor:
    """Sequences of the task with this many variables in the sum: any pair of numbers, any slot."""
    seen = run.seen[run.index_of(0)]
    any_sums = EvalSet("any sums", n_vars, pair="any", n_banned=None)
    return Sampler([task], seen[None], [0], any_sums).sample(0, n).tokens[0]


def check_share_at_values(attempt):
    for n_vars in (2, 1, 0):
        tokens = drawn(n_vars, 60)
        pattern = model.run_with_cache(tokens)[1]["blocks.1.attn.hook_pattern"][:, 0, -1]
        top, places = pattern.topk(2).indices, roles(task, tokens).value_positions
        expected = (top.sort().values == places.sort().values).all(-1).float().mean().item()
        found = attempt(tokens)
        if found is NotImplemented:
            return "Not done yet. In which sequences are the top two keys the two positions, in whichever order?"
        found = float(found)
        if found > 1:
            return f"share_at_values() is {found:g} for {n_vars} variables: a share is at most 1 (mean, not sum)."
        in_order = (top == places).all(-1).float().mean().item()
        if abs(found - in_order) < 1e-6 < abs(found - expected):
            return "You compare in order: the key with more attention need not be the first operand. Sort both."
        either = (top[:, :, None] == places[:, None]).any((1, 2)).float().mean().item()
        if abs(found - either) < 1e-6 < abs(found - expected):
            return "You count a sequence if one of the values is found; both have to be."
        if abs(found - expected) > 1e-6:
            return f"share_at_values() is {found:.4f} with {n_vars} variables in the sum, expected {expected:.4f}."
    return "Correct."


# %%
def share_at_values(tokens: torch.Tensor) -> float:
    """The share of sequences in which layer 2's top two keys of = are the positions of both values."""
    return NotImplemented  # your code here


check(3, share_at_values)


# %% cellView="form" jupyter={"source_hidden": true} tags=["solution"]
# @title Solution of exercise 3
def share_at_values(tokens: torch.Tensor) -> float:
    hook = "blocks.1.attn.hook_pattern"
    pattern = model.run_with_cache(tokens, names_filter=hook)[1][hook]  # (B, head, query, key)
    top = pattern[:, 0, -1].topk(2).indices.sort().values
    return (top == roles(task, tokens).value_positions.sort().values).all(-1).float().mean().item()


check(3, share_at_values)

# %%
for n_vars in (0, 1, 2):
    print(f"{n_vars} variables in the sum: {share_at_values(drawn(n_vars)):.3f} of the sequences")

# %% [markdown]
# ## How does layer 2 know where the value is?
#
# Suppose the sum asks for `b`. In layer 1, `=` attends to the operand `b` and the number 17 attends to the token
# before it, also `b`. Both positions then hold a copy of `b`, as layer 1 writes it: the embedding of `b` times
# OV1. If layer 2's QK matrix gives a high score to *equal* variables, `=` finds the 17. This can be read off the
# weights, without any sequence:
#
#     score(u, v) = (e_u OV1) QK2 (e_v OV1)^T
#
# ### Exercise 4: the binding matrix
#
# Complete `binding_scores`: the matrix of these scores, shape (V, V), with the query's variable as the row.
# `QK(stack, layer)` and `OV(stack, layer)` count layers from 1 and have a leading axis of models (we use one);
# vectors are rows: `x @ OV`.

# %% cellView="form" jupyter={"source_hidden": true} tags=["check"]
# @title Check of exercise 4
stack = aa.load_stack(run).models(run.index_of(0))  # the same network as weights with a leading axis of size 1


def check_binding_scores(attempt):
    found = attempt()
    if found is NotImplemented:
        return (
            "Not done yet. First what layer 1 writes for each variable (the last V rows of W_E), then the score of two."
        )
    V = task.n_vars
    if tuple(found.shape) != (V, V):
        hint = " Drop the axis of models with [0]." if found.ndim == 3 else " Variables are the last V rows of W_E."
        return f"binding_scores() has shape {tuple(found.shape)}, expected {(V, V)}.{hint}"
    e = stack.W_E[0, -V:]
    x, qk = e @ OV(stack, 1)[0], QK(stack, 2)[0]
    if torch.allclose(found, e @ qk @ e.T, atol=1e-3):
        return "You leave out OV1: layer 2 sees variables as layer 1 wrote them."
    if torch.allclose(found, x @ QK(stack, 1)[0] @ x.T, atol=1e-3):
        return "You use the QK matrix of layer 1: the search for the value happens in layer 2."
    if torch.allclose(found, (x @ qk @ x.T).T, atol=1e-3):
        return "This is the transpose: the query is on the left, so that the query's variable is the row."
    if not torch.allclose(found, x @ qk @ x.T, atol=1e-3):
        return (
            "Not the scores yet. Check each factor of the formula, and that the embeddings are those of the variables."
        )
    return "Correct."


# %%
def binding_scores() -> torch.Tensor:
    """Layer-2 scores between what layer 1 writes for two variables: row for the query, column for the key."""
    return NotImplemented  # your code here


check(4, binding_scores)


# %% cellView="form" jupyter={"source_hidden": true} tags=["solution"]
# @title Solution of exercise 4
def binding_scores() -> torch.Tensor:
    x = stack.W_E[0, -task.n_vars :] @ OV(stack, 1)[0]  # (V, d)
    return x @ QK(stack, 2)[0] @ x.T


check(4, binding_scores)

# %%
scores = binding_scores()
figure, axis = plt.subplots(figsize=(4.6, 4.2), layout="constrained")
axis.set(title="layer-2 score", xlabel="variable at the key (a number's)", ylabel="variable at the query (=)")
axis.set_xticks(range(task.n_vars), task.variables)
axis.set_yticks(range(task.n_vars), task.variables)
figure.colorbar(axis.imshow(scores.numpy(), cmap="RdBu_r", vmin=-scores.abs().max(), vmax=scores.abs().max()))
own = scores.diagonal() - (scores - 1e9 * torch.eye(task.n_vars)).amax(1)
print(f"{int((own > 0).sum())} of {task.n_vars} variables match themselves best, by {own.mean():.1f} on average")
print(f"the package's measure qk2_ov1_var_identity: {qk2_ov1_var_identity(stack).item():.3f}")

# %% [markdown]
# ## Who adds?
#
# Layer 2 writes both values into `=` (through OV2), and MLP2 has to add them. The paper's test: take *only* these
# parts. For numbers n and m, feed MLP2 the sum of their embeddings times OV2, and read the answer with W_U,
# without attention and without the residual stream around the MLP:
#
#     logits(n, m) = ReLU((e_n OV2 + e_m OV2) W_in) W_out W_U
#
# ### Exercise 5: the isolated adder
#
# Complete `adder`: the answers to all N x N sums as a matrix of numbers, shape (N, N).

# %% cellView="form" jupyter={"source_hidden": true} tags=["check"]
# @title Check of exercise 5
N = task.modulus
W_in, W_out = (stack[f"blocks.1.mlp.{w}"][0] for w in ("W_in", "W_out"))
W_E, W_U = stack.W_E[0], stack.W_U[0]


def check_adder(attempt):
    found = attempt()
    if found is NotImplemented:
        return "Not done yet. What does layer 2 write for each number? Broadcasting adds all pairs of them at once."
    if tuple(found.shape) == (N, N, N):
        return "These are the logits: take the argmax over the last axis."
    if tuple(found.shape) != (N, N):
        return f"adder() has shape {tuple(found.shape)}, expected {(N, N)}."
    x = W_E[:N] @ OV(stack, 2)[0]
    mid = x[:, None] + x
    expected = ((mid @ W_in).relu() @ W_out @ W_U).argmax(-1)
    agree = [
        ("You left out the ReLU: without it the MLP is linear.", (mid @ W_in @ W_out @ W_U).argmax(-1)),
        ("You add the residual around the MLP: the test is of the MLP alone.",
         ((mid + (mid @ W_in).relu() @ W_out) @ W_U).argmax(-1)),
        ("You use the embeddings themselves: what does layer 2 write for them?",
         (((W_E[:N, None] + W_E[:N]) @ W_in).relu() @ W_out @ W_U).argmax(-1)),
    ]  # fmt: skip
    if not torch.equal(found, expected):
        same = (found == expected).float().mean().item()
        hints = [text for text, other in agree if torch.equal(found, other)]
        return (
            hints
            or [f"{same:.1%} of the entries are as expected; is the MLP's input what layer 2 writes for both numbers?"]
        )[0]
    return "Correct."


# %%
def adder() -> torch.Tensor:
    """The isolated adder's answer to n + m for all n and m."""
    return NotImplemented  # your code here


check(5, adder)


# %% cellView="form" jupyter={"source_hidden": true} tags=["solution"]
# @title Solution of exercise 5
def adder() -> torch.Tensor:
    x = W_E[:N] @ OV(stack, 2)[0]  # (N, d)
    return (((x[:, None] + x) @ W_in).relu() @ W_out @ W_U).argmax(-1)


check(5, adder)

# %%
n = torch.arange(N)
right = adder() == (n[:, None] + n) % N
print(
    f"the isolated adder answers {int(right.sum()):,} of {right.numel():,} sums ({right.float().mean():.4f}) correctly"
)
print(f"the package's measure ov2_mlp2_accuracy: {ov2_mlp2_accuracy(stack).item():.4f}")
wrong = [(i, j) for i, j in (~right).nonzero().tolist()]
print(f"wrong: {len(wrong)}, of which doubles n + n: {sum(i == j for i, j in wrong)}")

# %% [markdown]
# ## What you found, and what you did not
#
# Layer 1: each assigned number copies its variable, and `=` copies the operands. Layer 2: equal variables match,
# so `=` fetches the two values. MLP2 adds them. This is the paper's circuit.
#
# But so far you *looked*: that a network attends to a token does not show that its answer depends on it. The next
# notebook breaks the circuit, and one part of what you saw here turns out not to matter.
#
# **Further exercises, without solutions.**
# 1. Load seed 3 or 4 (`aa.load(run, seed=3)`): is it the same circuit? Then seed 1. What is different? (Notebook
#    3.)
# 2. Which literal sums does the whole model get wrong? Compare held-out pairs (`~run.seen[run.index_of(0)]`) with
#    the doubles n + n.
# 3. Take a neuron of MLP2: how does its preactivation depend on n and m? (Try a Fourier transform over n.)
