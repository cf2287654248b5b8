"""Every reason to skip a test has a command that would run it."""

import ast
from pathlib import Path

from tests.skips import REMEDIES, remedy

TESTS = Path(__file__).parent
# Tests of what happens elsewhere, on another system or without Ray.
DO_NOT_APPLY = {
    "Ray is installed", "reads /proc", "reads /proc, and has more loopback addresses than one",
    "the C library is not glibc", "the compiler is switched off",
    "a file that is not there is written",
}  # fmt: skip


def reasons():
    """The texts of all skips in the tests; those made by a program are left out."""
    for path in TESTS.rglob("*.py"):
        tree = ast.parse(path.read_text())
        constants = {
            node.targets[0].id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if ast.unparse(call.func) not in ("pytest.skip", "pytest.mark.skipif", "pytest.importorskip"):
                continue
            given = [word.value for word in call.keywords if word.arg == "reason"]
            text = given[0] if given else call.args[0]
            text = constants.get(text.id) if isinstance(text, ast.Name) else text
            parts = text.values if isinstance(text, ast.JoinedStr) else [text]
            if words := [part.value for part in parts if isinstance(part, ast.Constant)]:
                yield "".join(words)


def test_every_reason_has_a_command():
    found = set(reasons())
    assert {text for text in found if remedy(text) is None} == DO_NOT_APPLY
    assert len(found) > 10  # so many were read


def test_the_extras_and_the_gpu_have_one():
    commands = [remedy(text) for text in ("Ray is not installed", "TransformerLens is not installed", "no CUDA device")]
    assert commands[0] == "make test-ray" and "test_lens_bridge.py" in commands[1] and "test_cuda.py" in commands[2]
    makefile = (TESTS.parent / "Makefile").read_text()
    assert all(f"\n{how.split()[1]}:" in makefile for how in REMEDIES.values() if how.startswith("make "))
