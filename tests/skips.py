"""What would run the tests that are skipped; `make test` ends with it (see `conftest`)."""

# What would run a skipped test, by a word of the reason.
REMEDIES = {
    "ray is not": "make test-ray",
    "transformerlens": "pip install -e '.[lens]', then pytest tests/runs/test_lens_bridge.py",
    "triton": "pytest tests/training/test_cuda.py on a machine with an NVIDIA GPU",
    "cuda": "pytest tests/training/test_cuda.py on a machine with an NVIDIA GPU",
    "hub": "pip install -e '.[dev]'",
    "numba": "pip install -e '.[dev]'",
    "git is not": "apt-get install git",
    "c++": "apt-get install g++",
    "chromium": "apt-get install chromium, or CHROMIUM=/path/to/chrome make test",
    "typst": "pip install -e '.[dev]'",
    "sphinx": "pip install -e '.[docs]', then pytest -m slow tests/test_site.py",
    "playwright": "pip install -e '.[dev]'",
    "node": "make explorer-web (needs Node)",
    "reference": "ASSIGNADD_REFERENCE=DIR make test, with the paper's checkpoints in DIR",
    "paper's run": "PAPER_CHECKPOINTS=DIR make test, with all checkpoints of the paper's run in DIR",
    "paper's text": "put the paper's text beside the checkout, as tests/paper/test_labels.py says",
    "checkpoints": "ASSIGNADD_REFERENCE=DIR make test, with the paper's checkpoints in DIR",
}


def remedy(reason: str) -> str | None:
    """What would run a test that is skipped for this reason; None for one that does not apply here."""
    return next((how for word, how in REMEDIES.items() if word in reason.lower()), None)
