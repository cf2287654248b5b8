"""The task's arithmetic is written in task/ and nowhere else: neither sums mod N nor token ids."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "assignadd"
THEORY = PACKAGE / "paper" / "theory"
# The theory has a model of its own (paper, section 7), whose sums are part of its formulas; what is about trained
# networks, or draws, has none.
OF_THE_THEORY = {p for p in THEORY.glob("*.py") if not p.stem.endswith(("figures", "claims", "real_gradient"))}
OUTSIDE = [p for p in sorted(PACKAGE.rglob("*.py")) if PACKAGE / "task" not in p.parents and p not in OF_THE_THEORY]


def is_modulus(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "modulus"


def is_sum(node: ast.AST) -> bool:
    added = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
    summed = isinstance(node, ast.Call) and "sum" in (getattr(node.func, "attr", ""), getattr(node.func, "id", ""))
    return added or summed


def stated(source: str) -> list[int]:
    """Lines that reduce something modulo `.modulus`, a sum modulo N, or add to `.modulus`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            by_N = isinstance(node.right, ast.Name) and node.right.id in ("N", "modulus")
            if is_modulus(node.right) or (by_N and is_sum(node.left)):
                found.append(node.lineno)
        added = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
        if added and (is_modulus(node.left) or is_modulus(node.right)):
            found.append(node.lineno)
    return found


def test_no_arithmetic_of_the_task_outside_it():
    assert len(OUTSIDE) > 100 and THEORY / "real_gradient.py" in OUTSIDE
    assert {str(p): lines for p in OUTSIDE if (lines := stated(p.read_text()))} == {}


@pytest.mark.parametrize("line", ["(n + m) % N", "x.sum(0) % task.modulus", "codes % task.modulus", "task.modulus + 3"])
def test_arithmetic_of_the_task_is_detected(line):
    assert stated(line) == [1]


@pytest.mark.parametrize("line", ["(k * n) % N", "task.modulus - 1", "task.modulus**2", "i % len(order)"])
def test_other_arithmetic_is_allowed(line):
    assert stated(line) == []
