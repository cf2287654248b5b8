"""The wheel, installed outside the checkout, answers without a run: it holds the networks, the page and the tables."""

import json
import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

import assignadd

ROOT = Path(__file__).parents[1]
# Part of the checkout alone: the sources of the page, and what programs leave beside the files.
NOT_IN_WHEEL = ("page/web", "__pycache__", ".compiled", "measures.parquet")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*pip, "--target", str(folder), str(wheel)], check=True, capture_output=True, timeout=120)
    return folder


def test_the_wheel_holds_every_file_of_the_package_but_the_sources_of_the_page(wheel):
    files = [p for p in (ROOT / "assignadd").rglob("*") if p.is_file()]
    names = {str(p.relative_to(ROOT)) for p in files if not any(part in str(p) for part in NOT_IN_WHEEL)}
    with ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == names, "nothing of findings/, benchmarks/, docs/ and tests/"
    assert {f"assignadd/networks/{run}/manifest.json" for run in ("census-six", "census-two")} < held
    data = ("page/built/app.js", "page/ready.json.xz", "results/census.parquet", "report/page.css")
    assert {f"assignadd/{name}" for name in data} < held
    assert wheel.name == f"assignadd-{assignadd.__version__}-py3-none-any.whl"


# What the installed script does, after saying where the package is.
SCRIPT = """
import runpy, sys, assignadd
print(assignadd.__file__)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_it_answers_without_a_run_and_says_who_answered(installed, tmp_path):
    words = [str(installed / "bin" / "assignadd"), "ask", "c=1, b=17, a=42, b+19=?", "--json"]
    environment = os.environ | {"PYTHONPATH": str(installed)}  # before the checkout, where that is installed too
    command = [sys.executable, "-P", "-c", SCRIPT, *words]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    package, answer = done.stdout.split("\n", 1)
    assert package.startswith(str(installed))
    reply = json.loads(answer)
    assert (reply["answer"], reply["correct"], reply["run"], reply["seed"]) == (36, True, "census-six", 0)
    assert done.stderr.count("\n") == 1 and "comes with the package; `assignadd train` makes your own" in done.stderr
