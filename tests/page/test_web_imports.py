"""The imports between the page's sources: in no circle, and only from upper folders to lower ones. Needs no Node."""

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "assignadd" / "page" / "web" / "src"
# From the bottom to the top: a file may import from its own folder and from those before it. "" has App and main.
LAYERS = ("glossary", "model", "data", "interventions", "state", "draw", "panels", "story", "")
# Of values, of types (`import type`) and of what is passed on (`export ... from`); also `import("./x")`.
IMPORT = re.compile(r"""\b(?:from|import)\s*\(?\s*["'](\.[^"']*)["']""")


def imports_of(sources: Path) -> dict[str, set[str]]:
    """The sources that each source imports, by their paths; style sheets are left out."""
    files = [f for f in sources.rglob("*.ts*") if f.suffix in (".ts", ".tsx")]
    return {str(f.relative_to(sources)): {_found(f, name, sources) for name in _names(f)} for f in files}


def _names(file: Path) -> list[str]:
    return [name for name in IMPORT.findall(file.read_text()) if not name.endswith(".css")]


def _found(file: Path, name: str, sources: Path) -> str:
    (found,) = (f for end in (".ts", ".tsx") if (f := Path(f"{(file.parent / name).resolve()}{end}")).is_file())
    return str(found.relative_to(sources.resolve()))


def circle(imports: dict[str, set[str]]) -> list[str]:
    """The sources of one circle of imports; none where there is no circle."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def upwards(imports: dict[str, set[str]]) -> list[str]:
    """The imports from a folder above that of the importing file."""
    height = {file: LAYERS.index(str(Path(file).parent).removeprefix(".")) for file in imports}
    return [f"{a} imports {b}" for a, found in imports.items() for b in found if height[b] > height[a]]


def test_no_source_imports_itself_through_others():
    imports = imports_of(SOURCES)
    assert {"main.tsx", "App.tsx", "state/store.ts"} <= set(imports) and imports["main.tsx"] >= {"App.tsx"}
    assert circle(imports) == []


def test_folders_import_only_from_those_below_them():
    assert upwards(imports_of(SOURCES)) == []


@pytest.mark.parametrize(
    "back",
    [
        'import { a } from "../panels/A";',
        'import type { A } from "../panels/A";',
        'import {\n  a,\n  type A,\n} from "../panels/A";',
        'export * from "../panels/A";',
        'const a = await import("../panels/A");',
    ],
)
def test_a_circle_and_an_import_upwards_are_found(tmp_path, back):
    texts = {"panels/A.tsx": 'import "./B";\nimport "./a.css";', "panels/B.tsx": 'import "../draw/c";', "draw/c.ts": ""}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert circle(imports_of(tmp_path)) == upwards(imports_of(tmp_path)) == []
    (tmp_path / "draw" / "c.ts").write_text(back)
    assert set(circle(imports_of(tmp_path))) == set(texts)
    assert upwards(imports_of(tmp_path)) == ["draw/c.ts imports panels/A.tsx"]
