"""Runs each percent script of this folder, and writes it as a notebook with its outputs; `make reference` does so.

The scripts are the source (jupytext's percent format: `# %%` starts a cell, `# %% [markdown]` a cell of text). The
.ipynb files are there so that Colab, GitHub and Jupyter open them; a test compares both.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from base64 import b64encode
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


def execute(made: dict[str, Any]) -> dict[str, Any]:
    """Runs the code cells of a notebook, puts what each prints and draws into it, and returns the names they define."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names: dict[str, Any] = {}
    code_cells = [cell for cell in made["cells"] if cell["cell_type"] == "code"]
    for count, cell in enumerate(code_cells, 1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"cell {count}", "exec"), names)
        cell["execution_count"] = count
        if lines := printed.getvalue().splitlines(keepends=True):
            cell["outputs"].append({"name": "stdout", "output_type": "stream", "text": lines})
        for number in pyplot.get_fignums():
            picture = io.BytesIO()
            pyplot.figure(number).savefig(picture, dpi=80)
            data = {"image/png": b64encode(picture.getvalue()).decode(), "text/plain": ["a figure"]}
            cell["outputs"].append({"data": data, "metadata": {}, "output_type": "display_data"})
        pyplot.close("all")
    return names


def main() -> None:
    """Writes the .ipynb file of each script."""
    for path in scripts():
        made = notebook(path.read_text())
        execute(made)
        path.with_suffix(".ipynb").write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
