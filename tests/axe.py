"""axe-core, a checker of accessibility, on a page in a browser."""

from pathlib import Path

AXE = Path(__file__).parents[1] / "assignadd" / "page" / "web" / "node_modules" / "axe-core" / "axe.min.js"


def axe_problems(page) -> list[str]:
    """Each violation with the element that has it."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run({resultTypes: ['violations'], preload: false})")["violations"]
    return [f"{v['id']}: {node['html'][:160]}" for v in found for node in v["nodes"]]
