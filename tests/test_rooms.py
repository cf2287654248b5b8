"""Who may import whom: the instrument, the paper, the roof, findings; and what a command loads."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "assignadd"
# From the ground up; a package may import itself and what is below it.
INSTRUMENT = (
    "config", "stats", "palette", "user_file", "compiler_cache", "task", "model", "runs", "training", "network",
    "measures", "dynamics", "interventions", "sweeps", "figure", "ledger", "study", "api",
)  # fmt: skip
ROOF = ("page", "report", "cli", "__main__")
ORDER = (*INSTRUMENT, "paper", *ROOF)
PUBLIC = ("task", "model", "measures", "dynamics", "interventions", "sweeps", "study", "ledger", "figure")
HEAVY = {"torch", "numpy", "polars", "matplotlib", "scipy", "rich", "msgspec"}
OUTSIDE = [*ROOT.glob("findings/*/*.py"), *ROOT.glob("examples/*.py"), *ROOT.glob("notebooks/[0-9]*.py")]


@cache
def modules() -> dict[str, Path]:
    paths = [p for p in PACKAGE.rglob("*.py") if "node_modules" not in p.parts]
    names = [".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for p in paths]
    return dict(sorted(zip(names, paths, strict=True)))


@cache
def imports(source: str) -> set[str]:
    """Every imported module, and `module.name` of names from it: at the top, in functions, and for type checkers."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found |= {str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def floor(module: str) -> int:
    parts = module.split(".")
    return ORDER.index(parts[1]) if len(parts) > 1 and parts[1] in ORDER else -1


@pytest.mark.parametrize("module", [m for m in modules() if m != "assignadd"])
def test_imports_point_down(module):
    ours = {name for name in imports(modules()[module].read_text()) if name.startswith("assignadd.")}
    assert [name for name in ours if floor(name) > floor(module)] == []


def test_every_part_of_the_package_has_its_place():
    assert {module.split(".")[1] for module in modules() if "." in module} == set(ORDER)


def test_no_module_imports_itself_through_others():
    every = modules()
    # The lists of public names are for those outside.
    inner = {m: p for m, p in every.items() if p.name != "__init__.py" or m == "assignadd.config"}
    graph = {m: (imports(p.read_text()) & set(inner)) - {m} for m, p in inner.items()}
    order = list(TopologicalSorter(graph).static_order())  # a CycleError names the cycle
    assert (
        order.index("assignadd.config.errors")
        < order.index("assignadd.training.trainer")
        < order.index("assignadd.cli.train")
    )


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda p: str(p.relative_to(ROOT)))
def test_what_is_outside_the_package_imports_public_names_alone(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert not any(alias.name.startswith("assignadd.") for alias in node.names), path
            assert not any(alias.name.split(".")[0] == "findings" for alias in node.names), path
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            module = str(node.module)
            assert module.split(".")[0] not in ("findings", "tests", "benchmarks"), path
            if module.split(".")[0] == "assignadd":
                public = import_module(module)
                assert module == "assignadd" or module.removeprefix("assignadd.") in PUBLIC, f"{path}: {module}"
                assert {alias.name for alias in node.names} <= set(public.__all__), f"{path}: {module}"
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 1, f"{path}: a finding knows its own folder alone"


@pytest.mark.parametrize("name", ["assignadd", *(f"assignadd.{name}" for name in PUBLIC)])
def test_public_names_are_there_once_and_documented(name):
    package = import_module(name)
    assert package.__doc__ and len(set(package.__all__)) == len(package.__all__)
    for public in package.__all__:
        thing = getattr(package, public)
        assert not isinstance(thing, type(ast)), f"{name}.{public} is a module"
        assert not callable(thing) or thing.__doc__, f"{name}.{public} says nothing of itself"


def test_public_names_are_few():
    packages = ["assignadd", *(f"assignadd.{name}" for name in PUBLIC)]
    assert sum(len(import_module(name).__all__) for name in packages) <= 86


COMMANDS = {
    "from assignadd.cli import main; assert main('train --preset smoke --optim.steps 1 --out r'.split()) == 0": 95,
    "from assignadd.cli import main; assert main(['ask', 'a=1, a+2=?']) == 0": 55,
    "from assignadd.cli import main; assert main(['ask', 'show']) == 0": 30,
    "from assignadd.cli import main; assert main(['runs', 'list']) == 0": 30,
}


def loaded(statement: str, folder: Path) -> set[str]:
    code = f"import sys; {statement}; print('loaded', *sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder)
    return set(next(line for line in done.stderr.splitlines() if line.startswith("loaded ")).split())


@pytest.mark.parametrize("statement", COMMANDS, ids=lambda s: s[-30:])
def test_training_and_asking_load_no_claim_no_figure_and_no_study(statement, tmp_path):
    ours = {name for name in loaded(statement, tmp_path) if name.split(".")[0] == "assignadd"}
    rooms = {name.split(".")[1] for name in ours if "." in name}
    assert not rooms & {"paper", "ledger", "figure", "study", "report", "page"}
    assert len(ours) <= COMMANDS[statement]


def test_a_typing_error_in_a_prompt_is_answered_without_torch(tmp_path):
    assert "torch" not in loaded("from assignadd.cli import main; assert main(['ask', 'a=1, b+2=?']) == 2", tmp_path)
    assert "torch" not in loaded("from assignadd.cli import main; main(['runs', 'list'])", tmp_path)


@pytest.mark.parametrize("statement", ["import assignadd", "from assignadd.cli import main; main(['--help'])"])
def test_help_needs_nothing_heavy(statement, tmp_path):
    assert not loaded(statement, tmp_path) & HEAVY


def test_measures_do_not_plot_and_the_theory_stands_alone():
    for module, path in modules().items():
        found = imports(path.read_text())
        if module.startswith("assignadd.measures"):
            assert not any(name.startswith("matplotlib") for name in found), module
        alone = ("theorem", "composition")
        if module in {f"assignadd.paper.theory.{name}" for name in alone}:
            ours = {name.split(".")[1] for name in found if name.startswith("assignadd.")}
            assert ours <= {"config", "stats", "paper"}, module


def test_nothing_unpickles_or_evaluates():
    for module, path in modules().items():
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        assert not {c.id for c in calls if isinstance(c, ast.Name)} & {"eval", "exec", "compile"}, module
        roots = {name.split(".")[0] for name in imports(path.read_text())}
        assert not roots & {"pickle", "dill", "cloudpickle", "joblib", "shelve"}, module
        attributes = {ast.unparse(c) for c in calls if isinstance(c, ast.Attribute)}
        assert not attributes & {"os.system", "os.popen"}, module
        assert "torch.load" not in attributes or module == "assignadd.runs.transformer_lens", module
        assert not any(name.endswith(".exec_module") for name in attributes) or module == "assignadd.user_file", module


def test_files_stay_small():
    for module, path in modules().items():
        assert len(path.read_text().splitlines()) <= 470, f"{module}: one idea a file"
