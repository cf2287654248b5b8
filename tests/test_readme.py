"""The README's Python runs as printed, its links lead somewhere, and its commands exist."""

import re
from pathlib import Path

from assignadd.cli import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_python_snippets_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    snippets = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(snippets) >= 2
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), names)
    assert names["attention_from_equals"].shape == (8,)
    assert names["scores"].shape == (2, 4, 4)
    assert not names["without_layer_2"].equal(names["logits"])
    assert len(names["table"]) == 8


def test_commands_and_links_exist():
    assert set(re.findall(r"^    assignadd (\w+)", README, re.MULTILINE)) <= set(COMMANDS)
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_readme_is_short():
    assert len(README.splitlines()) <= 155
