"""The reference of public names: it is current, and its scripts run and use every name."""

import ast
import importlib.util
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
generate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate)


def used(script: Path) -> set[str]:
    """The names and attributes in the code of a script, except in its imports."""
    nodes = list(ast.walk(ast.parse(script.read_text())))
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }


def test_the_page_is_current():
    assert (DOCS / "reference.md").read_text() == generate.reference(), "run `make reference`"


def test_every_script_belongs_to_a_package():
    assert {path for path in (DOCS / "reference").iterdir() if path.suffix == ".py"} == set(
        map(generate.script, generate.PUBLIC)
    )


@pytest.mark.parametrize("package", generate.PUBLIC)
def test_a_script_uses_every_public_name_of_its_package(package):
    missing = set(generate.public_names(package)) - used(generate.script(package))
    assert not missing, "show it in an example, or take it out of __all__"


@pytest.mark.parametrize("package", generate.PUBLIC)
def test_the_names_are_those_of_the_package(package):
    module = importlib.import_module(f"assignadd.{package}".rstrip("."))
    assert set(generate.public_names(package)) == set(module.__all__)


@pytest.mark.parametrize("package", generate.PUBLIC)
def test_a_script_imports_public_names_alone(package):
    for node in ast.walk(ast.parse(generate.script(package).read_text())):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("assignadd"):
            of = str(node.module).removeprefix("assignadd").removeprefix(".")
            assert of in generate.PUBLIC and {a.name for a in node.names} <= set(generate.public_names(of)), of


SLOW = ("", "task", "model", "sweeps", "study", "ledger", "figure")  # 7 to 35 seconds each in a process of its own


@pytest.mark.parametrize(
    "package", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in generate.PUBLIC]
)
def test_a_script_runs(package, tmp_path, monkeypatch, capfd):  # also what its processes print
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(generate.script(package)), run_name="__main__")
    assert capfd.readouterr().out and list(tmp_path.iterdir()) == []


def test_pages_of_the_site_are_made():
    pages = generate.site_pages()
    rows = re.findall(r"^\| `--[^|]*\| ([^|]*) \|", pages["commands.md"], re.MULTILINE)
    assert "`0.8`" in rows and not [shown for shown in rows if re.search(r"\w\(", shown)], "values, not code"
    assert "## assignadd study" in pages["commands.md"] and "## census" in pages["data.md"]
    shown = re.findall(r"^### (.+)", pages["studies.md"], re.MULTILINE)
    tables = {path.stem for path in ROOT.glob("findings/*/*.parquet")}
    assert sorted(shown) == sorted(tables - {"operand-attention", "stuck"})  # of these two no study.py
    assert "| doubles-doubles-minus-others-as-in-the-paper | holds | -0.528 [-0.604, -0.452] |" in pages["studies.md"]
