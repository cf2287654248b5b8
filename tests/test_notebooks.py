"""The notebooks run, their checks accept the solutions and name the mistakes, and the .ipynb files are the scripts."""

import ast
import builtins
import importlib.util
import json
import math
import re
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[1] / "notebooks"
SPEC = importlib.util.spec_from_file_location("convert", FOLDER / "convert.py")
convert = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(convert)
NAMES = [path.stem for path in convert.scripts()]


class Executed:
    """The names that a notebook defines, and its code cells with what they print."""

    def __init__(self, name: str):
        made = convert.notebook((FOLDER / f"{name}.py").read_text())
        self.names = convert.execute(made)
        self.cells = code_cells(made)
        self.printed = [text_of(cell) for cell in self.cells]


def code_cells(made):
    return [cell for cell in made["cells"] if cell["cell_type"] == "code"]


def text_of(cell) -> str:
    """What a cell printed."""
    return "".join(line for output in cell["outputs"] for line in output.get("text", []))


@pytest.fixture(scope="module", params=NAMES)
def executed(request):
    """Each notebook, executed once as a student runs it, without gradients."""
    try:
        yield request.param, Executed(request.param)
    finally:
        torch.set_grad_enabled(True)


def test_there_are_three():
    assert [name[:2] for name in NAMES] == ["1_", "2_", "3_"]


@pytest.mark.parametrize("name", NAMES)
def test_the_notebook_is_the_script(name):
    made = convert.notebook((FOLDER / f"{name}.py").read_text())
    stored = json.loads((FOLDER / f"{name}.ipynb").read_text())
    for cell in code_cells(stored):
        cell |= {"execution_count": None, "outputs": []}
    assert stored == made, "run `make reference`"
    cells = made["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells) > 20
    hidden = [cell for cell in cells if cell["metadata"].get("cellView") == "form"]
    assert all(cell["source"][0].startswith("# @title ") for cell in hidden)
    assert {tag for cell in hidden for tag in cell["metadata"]["tags"]} == {"check", "solution"}


def test_converting_reads_cells_titles_and_text():
    hidden = '# %% tags=["check"] jupyter={"source_hidden": true}'
    script = f"# %% [markdown]\n# # A\n#\n# b\n\n{hidden}\nx = 1\n\n\n# %%\ny = 2\n"
    text, code, last = convert.notebook(script)["cells"]
    assert text["source"] == ["# A\n", "\n", "b"] and code["source"] == ["x = 1"] and last["source"] == ["y = 2"]
    assert code["metadata"] == {"tags": ["check"], "jupyter": {"source_hidden": True}}
    made = convert.notebook("# %%\nx = 1\nprint(x)\n\n# %%\nx + 1\n")
    assert convert.execute(made)["x"] == 1 and [text_of(cell) for cell in made["cells"]] == ["1\n", ""]


def test_the_stored_outputs_are_those_of_the_cells(executed):
    """The words are; a digit may differ from machine to machine."""
    name, done = executed
    stored = code_cells(json.loads((FOLDER / f"{name}.ipynb").read_text()))
    for kept, cell in zip(stored, done.cells, strict=True):
        words, words_now = (re.sub(r"[-+]?[\d.,]+", "0", text_of(c)).split() for c in (kept, cell))
        assert words == words_now and len(kept["outputs"]) == len(cell["outputs"]), "run `make reference`"
    figures = [output for cell in stored for output in cell["outputs"] if "image/png" in output.get("data", ())]
    assert len(figures) == {"1": 2, "2": 0, "3": 1}[name[0]]


@pytest.mark.parametrize("wheels", [[], ["assignadd-0.2.0-py3-none-any.whl"]])
@pytest.mark.parametrize("name", NAMES)
def test_the_first_cell_installs_the_package_where_it_is_not(name, wheels, tmp_path, monkeypatch):
    """As on Colab: pip gets the wheel beside the notebook or else the package's name, and then the import succeeds."""
    first = next(c for c in convert.notebook((FOLDER / f"{name}.py").read_text())["cells"] if c["cell_type"] == "code")
    install = "".join(first["source"]).split("\n\n", 2)
    installed = []
    real = __import__

    def imported(module, *rest):
        if module == "assignadd" and not installed:
            raise ModuleNotFoundError(module)
        return real(module, *rest)

    for wheel in wheels:
        (tmp_path / wheel).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("subprocess.check_call", installed.append)
    names = {"__builtins__": {**vars(builtins), "__import__": imported}}
    exec("\n\n".join(install[:2]), names)
    assert [command[1:] for command in installed] == [["-m", "pip", "install", "--quiet", *(wheels or ["assignadd"])]]
    assert names["aa"].__name__ == "assignadd"


def test_the_handout_is_one_page_and_current(tmp_path):
    typst = pytest.importorskip("typst", reason="typst is not installed")
    source, pdf = FOLDER / "handout.typ", tmp_path / "handout.pdf"
    pages = typst.compile(source, format="png", ppi=20, ignore_system_fonts=True)
    assert isinstance(pages, bytes), "a list if there are several"
    typst.compile(source, output=pdf, ignore_system_fonts=True, timestamp=0)
    assert pdf.read_bytes() == (FOLDER / "handout.pdf").read_bytes(), "run `make handout`"


def test_exercises_are_open_and_solutions_correct(executed):
    _, done = executed
    exercises = [i for i, cell in enumerate(done.cells) if any("# your code here" in line for line in cell["source"])]
    assert len(exercises) >= 4
    for i in exercises:
        number = exercises.index(i) + 1
        assert done.printed[i] == f"Not right yet. hint({number}) gives a hint.\n"
        assert "solution" in done.cells[i + 1]["metadata"]["tags"] and done.printed[i + 1] == "Right.\n"
        assert "check" in done.cells[i - 1]["metadata"]["tags"]


def test_a_hint_is_about_the_last_attempt_and_never_the_solution(executed, capsys):
    _, done = executed
    own = done.names
    solutions = {
        node.name: node
        for cell in done.cells
        if "solution" in cell["metadata"].get("tags", [])
        for node in ast.parse("".join(cell["source"])).body
        if isinstance(node, ast.FunctionDef)
    }
    for number, (name, node) in enumerate(solutions.items(), 1):

        def attempt(*given, name=name):
            return NotImplemented

        attempt.__name__ = name
        own["check"](number, attempt)
        own["hint"](number)
        said = capsys.readouterr().out.splitlines()[-1]
        assert said.startswith("Not done yet. ")
        code = {ast.unparse(part) for part in ast.walk(node) if isinstance(part, ast.expr)}
        assert not [text for text in code if len(text) > 12 and text in said], said
        own["check"](number, own[name])
        assert capsys.readouterr().out == "Right.\n"
    del own["said"][1]
    own["hint"](1)
    assert capsys.readouterr().out == "Run the cell of exercise 1 first.\n"


def edited(own, hook, change, tokens):
    """Answers with a change at a hook, for attempts that are wrong in one way."""
    return own["model"].run_with_hooks(tokens, fwd_hooks=[(hook, change)])[:, -1].argmax(-1)


def removed(own, layer, tokens, keys, queries=-1, normalise=False, rows=None):
    def change(pattern, point):
        pattern = pattern.clone()
        pattern[torch.arange(len(tokens)) if rows is None else rows, :, queries, keys] = 0
        return pattern / pattern.sum(-1, keepdim=True) if normalise else pattern

    return edited(own, f"blocks.{layer - 1}.attn.hook_pattern", change, tokens)


def replaced(own, hook, base, donor, at):
    source = own["model"].run_with_cache(donor)[1][hook]

    def change(x, point):
        x = x.clone()
        x[:, at] = source[:, at]
        return x

    return edited(own, hook, change, base)


def one_way(own, base, p, q):
    i = torch.arange(len(base))

    def change(x, point):
        x = x.clone()
        x[i, p] = x[i, q]
        x[i, q] = x[i, p]  # already overwritten
        return x

    return edited(own, "blocks.0.hook_attn_out", change, base)


def last_logits(own, prompt):
    import assignadd

    return own["model"](torch.tensor([assignadd.parse(prompt, own["task"])]))[0]


def pattern_of(own, tokens, layer):
    return own["model"].run_with_cache(tokens)[1][f"blocks.{layer - 1}.attn.hook_pattern"][:, 0]


def rows_of(model, tokens, layer):
    return model.run_with_cache(tokens)[1][f"blocks.{layer - 1}.attn.hook_pattern"][:, 0]


def added(own, ov, activation):
    """All sums by an adder with another matrix for OV2 or another activation."""
    x = own["W_E"][:59] @ ov
    return (activation((x[:, None] + x) @ own["W_in"]) @ own["W_out"] @ own["W_U"]).argmax(-1)


def candidates(own, tokens, given, sums, assigned_only):
    """The share of answers among some sums at assigned numbers, or at all positions."""
    allowed = own["roles"](own["task"], tokens).assigned | (not assigned_only)
    return ((sums == given[:, None]) & allowed).any(1).float().mean()


def unpaired(a, b):
    return 1.96 * math.sqrt((a.float().var(correction=0) + b.float().var(correction=0)) / len(a))


def normal_ends(p, n):
    half = 1.96 * math.sqrt(p * (1 - p) / n)
    return p - half, p + half


def interval(own, before, after, scale):
    d = before.float() - after.float()
    return d.mean(), d.mean() - scale(d), d.mean() + scale(d)


# For each check, wrong attempts of a student (given the notebook's names) and what the check has to say about them.
MISTAKES = {
    "1_find_the_circuit": {
        "answer": [
            (lambda o: lambda prompt: last_logits(o, prompt)[-1].argmax(), "make it a number with .item()"),
            (lambda o: lambda prompt: last_logits(o, prompt).argmax(-1), "one number, at the last position"),
            (lambda o: lambda prompt: last_logits(o, prompt)[0].argmax().item(), "It is the prediction at position"),
        ],
        "top_two": [
            (lambda o: lambda prompt, layer: list(o["top_two"](prompt, layer)), "returns a list"),
            (lambda o: lambda prompt, layer: o["top_two"](prompt, 3 - layer), "keys of the other layer"),
            (lambda o: lambda prompt, layer: set(torch.tensor([13, 14])), "holds tensors"),
            (lambda o: lambda prompt, layer: {0, 1}, "expected"),
        ],
        "share_at_values": [
            (lambda o: lambda tokens: len(tokens) * o["share_at_values"](tokens), "mean, not sum"),
            (
                lambda o: lambda tokens: (
                    pattern_of(o, tokens, 2)[:, -1].topk(2).indices == o["roles"](o["task"], tokens).value_positions
                ).all(-1).float().mean(),
                "Sort both",
            ),
            (lambda o: lambda tokens: 0.5, "expected"),
        ],
        "binding_scores": [
            (lambda o: lambda: o["stack"].W_E[0, -12:] @ o["QK"](o["stack"], 2)[0] @ o["stack"].W_E[0, -12:].T, "OV1"),
            (lambda o: lambda: o["binding_scores"]().T, "transpose"),
            (lambda o: lambda: o["binding_scores"]()[None], "Drop the axis of models"),
            (lambda o: lambda: 2 * o["binding_scores"](), "Not the scores yet"),
        ],
        "adder": [
            (lambda o: lambda: added(o, o["OV"](o["stack"], 2)[0], lambda x: x), "left out the ReLU"),
            (lambda o: lambda: added(o, torch.eye(128), torch.relu), "embeddings themselves"),
            (lambda o: lambda: torch.zeros(59, 59, 59), "take the argmax"),
            (lambda o: lambda: (o["adder"]() + 1) % 59, "of the entries are as expected"),
        ],
    },
    "2_break_it": {
        "answers_without": [
            (lambda o: lambda m, t, layer, keys: removed(o, layer, t, keys, normalise=True), "You renormalise"),
            (lambda o: lambda m, t, layer, keys: removed(o, 3 - layer, t, keys), "in the right layer"),
            (lambda o: lambda m, t, layer, keys: removed(o, layer, t, keys, rows=slice(None)), "in every sequence"),
            (lambda o: lambda m, t, layer, keys: removed(o, layer, t, keys, queries=slice(None)), "for every query"),
            (lambda o: lambda m, t, layer, keys: m.answer_logits(t).argmax(-1), "Nothing changed"),
            (lambda o: lambda m, t, layer, keys: m.answer_logits(t), "one number for each sequence"),
        ],
        "loss_with_interval": [
            (lambda o: lambda a, b: o["loss_with_interval"](b, a), "The sign is wrong"),
            (lambda o: lambda a, b: interval(o, a, b, lambda d: 1.96 * d.std()), "divide s by sqrt(n)"),
            (lambda o: lambda a, b: interval(o, a, b, lambda d: unpaired(a, b)), "use the differences"),
            (lambda o: lambda a, b: (0.2, 0.1, 0.9), "expected mean -+"),
        ],
        "answers_patched": [
            (lambda o: lambda b, d, at: replaced(o, "blocks.0.hook_attn_out", b, d, slice(None)), "every position"),
            (lambda o: lambda b, d, at: replaced(o, "blocks.1.hook_attn_out", b, d, at), "or layer 2's output"),
            (lambda o: lambda b, d, at: o["model"].answer_logits(b).argmax(-1), "Nothing changed"),
        ],
        "answers_exchanged": [
            (lambda o: lambda b, p, q: one_way(o, b, p, q), "before you have read it"),
            (lambda o: lambda b, p, q: o["model"].answer_logits(b).argmax(-1), "Nothing changed"),
            (lambda o: lambda b, p, q: torch.zeros(60, dtype=torch.int64), "Not the answers expected"),
        ],
    },
    "3_a_seed_that_never_binds": {
        "binding_seeds": [
            (lambda o: lambda t: set(t.filter(t["1-var train"] >= 0.95)["seed"]), "rows of the last step"),
            (lambda o: lambda t: set(t.filter((t["1-var train"] > 0.95) & (t["step"] == 200))["seed"]), "include 95 %"),
            (lambda o: lambda t: set(t["seed"]), "They all add"),
            (lambda o: lambda t: set(t.filter(t["1-var var-restricted"] >= 0.95)["seed"]), "another column"),
        ],
        "attention_on": [
            (lambda o: lambda m, t, layer, k: (rows_of(m, t, layer)[:, -1] * k).mean(), "average over keys"),
            (lambda o: lambda m, t, layer, k: o["attention_on"](m, t, 3 - layer, k), "the other layer"),
            (lambda o: lambda m, t, layer, k: (rows_of(m, t, layer) * k[:, None]).sum(-1).mean(), "all queries"),
            (lambda o: lambda m, t, layer, k: (rows_of(m, t, layer)[:, :, -1] * k).sum(1).mean(), "= as the key"),
            (lambda o: lambda m, t, layer, k: (rows_of(m, t, layer)[:, -1] * k).sum(1), "it is one number"),
        ],
        "accuracy_by_assignments": [
            (lambda o: lambda m, t: list(o["accuracy_by_assignments"](m, t)), "returns a list"),
            (lambda o: lambda m, t: {k - 1: v for k, v in o["accuracy_by_assignments"](m, t).items()}, "The keys are"),
            (lambda o: lambda m, t: dict.fromkeys(o["accuracy_by_assignments"](m, t), 0.5), "For 1 assignments"),
        ],
        "explained": [
            (lambda o: lambda t, g, m: (g == o["answers"](o["task"], t)).float().mean(), "any assigned number"),
            (lambda o: lambda t, g, m: candidates(o, t, g, t + m[:, None], True), "modulo N"),
            (lambda o: lambda t, g, m: candidates(o, t, g, (t + m[:, None]) % 59, False), "positions without"),
        ],
        "share_with_interval": [
            (lambda o: lambda k, n: (k / n, *normal_ends(k / n, n)), "normal interval"),
            (lambda o: lambda k, n: (k / n, 0.0, 1.0), "expected ["),
        ],
        "auc": [
            (lambda o: lambda a, b: float((a[:, None] > b).mean()), "Ties count half"),
            (lambda o: lambda a, b: o["auc"](b, a), "The other way round"),
        ],
    },
}  # fmt: skip


def test_checks_name_the_mistakes(executed):
    name, done = executed
    checks = {check.removeprefix("check_") for check in done.names if check.startswith("check_")}
    assert checks == set(MISTAKES[name])
    for function, attempts in MISTAKES[name].items():
        check = done.names[f"check_{function}"]
        assert check(done.names[function]) == "Correct."
        for wrong, fragment in attempts:
            said = check(wrong(done.names))
            assert fragment in said and "Correct" not in said, (function, fragment, said)


def test_what_the_prose_says_is_so(executed):
    """The sentences of the notebooks that their prose draws from a printed number, on the networks that are shipped."""
    name, done = executed
    own = done.names
    if name == "1_find_the_circuit":
        assert all(own["share_at_values"](own["drawn"](k)) > 0.99 for k in (0, 1, 2))
        assert own["qk2_ov1_var_identity"](own["stack"]).item() == 1
        assert 0.99 < own["right"].float().mean() < 1
    elif name == "2_break_it":
        lost = own["losses"]
        assert lost["layer 1, the variable's slot"][1] > 0.5 and lost["layer 1, the literal's slot"][2] < 0.05
        assert all(lost[f"layer 2, the {value}"][1] > 0.9 for value in ("variable's value", "literal"))
        assert own["on_literal"] > 0.1
        base_first, donor_first = own["at_equals"]["variable first"]
        assert base_first < 0.05 and donor_first < 0.8 and own["at_equals"]["variable second"][1] > 0.98
        assert all(share[0] > 0.98 for share in own["at_plus"].values())
        assert all(share[1] > 0.95 for share in own["at_both"].values())
        assert own["exchanged_shares"][1] > 0.98
    else:
        bound, stuck = own["bind"][0], own["stuck"][0]
        assert (
            own["looks"][stuck, 1, "the literal's slot"] > 0.9 and own["looks"][stuck, 1, "the variable's slot"] < 0.02
        )
        assert own["looks"][bound, 1, "the variable's slot"] > own["looks"][bound, 1, "the literal's slot"]
        assert own["looks"][stuck, 2, "assigned numbers"] > 0.5 and own["edge_lost"][bound] > 0.5
        assert abs(own["edge_lost"][stuck]) < 0.02
        found = own["by_number"][stuck]
        assert found[1] > 0.98 and all(found[k] > 1 / k for k in range(2, 7)) and found[6] < 0.5
        assert own["share_explained"] > 0.95 and own["share_by_chance"] < 0.15
        assert own["wrong_and_seen"] > 0.95 and own["others_seen"] < 0.8
        assert own["accuracy"] < own["guess"] - 0.05 and own["already"] == 0
        fresh = [own["separation"](own["authors"], own["ends"]["authors"], column) for column in own["best"]]
        assert max(fresh) > 0.9 and any(abs(value - 0.5) < 0.1 for value in fresh)
