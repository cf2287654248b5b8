"""The modules that compute import nothing of the package; only the tests that compare with it do."""

import ast
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
MODULES = sorted(path for path in FOLDER.glob("*.py") if not path.name.startswith("test_"))
ALLOWED = {
    "__future__",
    "collections",
    "dataclasses",
    "functools",
    "itertools",
    "pathlib",
    "random",
    "numpy",
    "safetensors",
    "scipy",
    "sys",
    "torch",
}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield node.module
        elif isinstance(node, ast.Call):
            assert getattr(node.func, "id", "") != "__import__" and getattr(node.func, "attr", "") != "import_module"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_nothing_of_the_package_is_imported(path):
    foreign = {name for name in imported(path) if not name.startswith("tests.independent.")}
    assert {name.split(".")[0] for name in foreign} <= ALLOWED
    assert "torch" not in foreign or path.stem == "network"  # to read the paper's files


def test_all_modules_are_checked():
    assert {path.stem for path in MODULES} >= {
        "behaviour",
        "circuit",
        "curves",
        "interchange",
        "network",
        "sequences",
        "theorem",
        "weights",
    }
