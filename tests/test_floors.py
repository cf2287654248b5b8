"""Imports point down only (README, Architecture), and `import assignadd` stays cheap."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "assignadd"
# From the ground up; a floor may import itself and what is below it.
FLOORS = (
    "errors", "task_settings", "member", "config", "palette", "task", "model", "runs", "training", "stats",
    "verdicts", "theory", "measures", "dynamics", "interventions", "alignment", "benchmark", "sweeps", "studies",
    "claims", "figures", "report", "explorer", "api", "cli",
)  # fmt: skip
HEAVY = {"torch", "numpy", "polars", "matplotlib", "scipy", "tyro", "rich", "msgspec"}


def floor(module: str) -> int:
    return FLOORS.index(module.split(".")[1])


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found |= {node.module} | {
                f"{node.module}.{alias.name}" for alias in node.names if node.module == "assignadd"
            }
    return found


def modules() -> list[tuple[str, Path]]:
    paths = sorted(p for p in PACKAGE.rglob("*.py") if p.parent != PACKAGE or not p.stem.startswith("__"))
    return [("assignadd." + ".".join(p.relative_to(PACKAGE).with_suffix("").parts), p) for p in paths]


@pytest.mark.parametrize(("module", "path"), modules(), ids=lambda x: x if isinstance(x, str) else "")
def test_imports_point_down(module, path):
    ours = {name for name in imports(path) if name.startswith("assignadd.") and name.split(".")[1] in FLOORS}
    assert [name for name in ours if floor(name) > floor(module)] == []


def test_no_module_imports_itself_through_others():
    """Counting every import: at the top, inside functions, and those for type checkers only."""
    names = {module for module, _ in modules()}
    graph = {}
    for module, path in modules():
        found = ast.walk(ast.parse(path.read_text()))
        froms = [node for node in found if isinstance(node, ast.ImportFrom)]
        ours = {f"{node.module}.{alias.name}" for node in froms for alias in node.names} | {
            node.module for node in froms
        }
        graph[module] = (ours & names) - {module}
    order = list(TopologicalSorter(graph).static_order())  # a CycleError names the cycle
    assert order.index("assignadd.config") < order.index("assignadd.training.step") < order.index("assignadd.cli.train")


def test_measures_do_not_plot_and_theory_stands_alone():
    for module, path in modules():
        found = imports(path)
        if module.startswith("assignadd.measures"):
            assert not any(name.startswith("matplotlib") for name in found), module
        if module.startswith("assignadd.theory"):
            ours = {name.split(".")[1] for name in found if name.startswith("assignadd.")}
            assert ours <= {"config", "stats", "theory", "verdicts"}, module


def test_nothing_unpickles_or_evaluates():
    for module, path in modules():
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        assert not {c.id for c in calls if isinstance(c, ast.Name)} & {"eval", "exec", "compile"}, module
        assert not {name.split(".")[0] for name in imports(path)} & {
            "pickle",
            "dill",
            "cloudpickle",
            "joblib",
            "shelve",
        }, module
        loads = {
            ast.unparse(c) for c in calls if isinstance(c, ast.Attribute) and c.attr in ("load", "system", "popen")
        }
        assert not loads & {"torch.load", "os.system", "os.popen"} or module == "assignadd.runs.transformer_lens", (
            module
        )


@pytest.mark.parametrize("statement", ["import assignadd", "from assignadd.cli import main; main(['--help'])"])
def test_help_needs_nothing_heavy(statement):
    code = f"import sys; {statement}; print(sorted(set(sys.modules) & {HEAVY!r}), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_files_stay_small():
    for module, path in modules():
        assert len(path.read_text().splitlines()) <= 400, f"{module}: one idea a file"
