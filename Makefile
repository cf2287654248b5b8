# Two commands do everything for a newcomer: `make reproduce` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The constraints reach pip's build environments too.
PIP := PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help reproduce quick test check clean

help:
	@echo "make reproduce   train two seeds of the paper's network, evaluate, write reproduction/index.html"
	@echo "make quick       the same pipeline on the tiny preset, in about two minutes (reproduction/tiny/index.html)"
	@echo "make test        lint, types and tests"
	@echo "make clean       remove the virtual environment (runs/ and reproduction/ stay)"

reproduce: $(VENV)/.core
	$(BIN)/assignadd reproduce

quick: $(VENV)/.core
	$(BIN)/assignadd reproduce --preset tiny --out reproduction/tiny

test: check
	$(BIN)/python -m pytest

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# A stamp per set of dependencies, so that a second call installs nothing.
$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.core

clean:
	rm -rf $(VENV)
