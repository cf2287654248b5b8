"""One version and one arXiv number everywhere, and workflows that name what there is."""

import re
import tomllib
from pathlib import Path

import assignadd
from assignadd.report.beside import ARXIV

ROOT = Path(__file__).parents[1]


def constraints() -> dict[str, str]:
    """The version of each package in constraints.txt."""
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    return {name.lower().replace("_", "-"): version for name, version in (line.split("==") for line in lines)}


def test_the_version_is_the_same_everywhere():
    assert re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == assignadd.__version__
    assert re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1] == assignadd.__version__


def test_the_papers_number_is_the_same_everywhere():
    for name in ("README.md", "CITATION.cff"):
        assert set(re.findall(r"\b\d{4}\.\d{5}\b", (ROOT / name).read_text())) == {ARXIV}, name


def test_the_workflows_test_every_version_that_the_package_accepts():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = re.search(r"python: \[(.+)\]", (ROOT / ".github/workflows/tests.yml").read_text())[1]
    assert versions.split(", ")[0] == f'"{project["requires-python"].removeprefix(">=")}"'
    assert "make test" in (ROOT / ".github/workflows/tests.yml").read_text()


def test_pinned_versions_cover_every_extra():
    """What an extra names is pinned, so that its tests run against one version."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {re.match(r"[\w-]+", need)[0] for needs in extras.values() for need in needs}
    assert named - constraints().keys() == {"assignadd"}


def test_the_lock_file_has_the_same_versions_and_only_public_addresses():
    """uv.lock is that of pyproject.toml, and of constraints.txt wherever this names a package."""
    text = (ROOT / "uv.lock").read_text()
    locked = {package["name"]: package for package in tomllib.loads(text)["package"]}
    assert {name: locked[name]["version"] for name in constraints()} == constraints()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs = [re.match(r"[\w-]+", need)[0] for need in project["dependencies"]]
    ours = locked.pop("assignadd")
    assert {need["name"] for need in ours["dependencies"]} == set(needs)
    assert ours["optional-dependencies"].keys() == project["optional-dependencies"].keys()
    assert set(re.findall(r"https?://([^/\"]+)", text)) == {"pypi.org", "files.pythonhosted.org"}
    for name, package in locked.items():
        files = [package["sdist"]] if "sdist" in package else []
        files += package.get("wheels", [])
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", file["hash"]) for file in files), name
