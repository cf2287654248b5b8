"""Writes each percent script of this folder as a notebook without outputs; `make reference` runs it.

The scripts are the source (jupytext's percent format: `# %%` starts a cell, `# %% [markdown]` a cell of text). The
.ipynb files are there so that Colab, GitHub and Jupyter open them; a test compares both.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
HEADER = re.compile(r"^# %%(?P<text> \[markdown\])?(?P<metadata>.*)$", re.MULTILINE)
METADATA = re.compile(r'(\w+)=("[^"]*"|\[[^\]]*\]|\{[^}]*\})')
NOTEBOOK = {
    "colab": {"provenance": []},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def scripts() -> list[Path]:
    """The scripts in this folder that are notebooks."""
    return [path for path in sorted(FOLDER.glob("*.py")) if path.read_text().startswith("# %%")]


def notebook(script: str) -> dict[str, Any]:
    """The notebook of a script, as the JSON of an .ipynb file."""
    headers = list(HEADER.finditer(script))
    ends = [*(header.start() for header in headers[1:]), len(script)]
    cells = []
    for i, (header, end) in enumerate(zip(headers, ends, strict=True)):
        body = script[header.end() : end].strip("\n")
        metadata = {name: json.loads(value) for name, value in METADATA.findall(header["metadata"])}
        cell: dict[str, Any] = {"id": f"cell-{i:02}", "metadata": metadata}
        if header["text"]:
            body = re.sub(r"^# ?", "", body, flags=re.MULTILINE)
            cells.append({"cell_type": "markdown", **cell, "source": body.splitlines(keepends=True)})
        else:
            code: dict[str, Any] = {"execution_count": None, "outputs": [], "source": body.splitlines(keepends=True)}
            cells.append({"cell_type": "code", **cell, **code})
    return {"cells": cells, "metadata": NOTEBOOK, "nbformat": 4, "nbformat_minor": 5}


def text(script: str) -> str:
    """The text of the .ipynb file of a script."""
    return json.dumps(notebook(script), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for path in scripts():
        path.with_suffix(".ipynb").write_text(text(path.read_text()))
