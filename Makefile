# Two commands do everything for a newcomer: `make reproduce` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The constraints reach pip's build environments too. Bytecode is compiled when a module is first imported, not of all that
# is installed, and is kept, also where the environment switches that off, as containers do.
PIP := PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
export PYTHONDONTWRITEBYTECODE :=

WEB := assignadd/page/web

.PHONY: help reproduce quick explorer explorer-web explorer-ready test test-slow test-ray test-lens lint check browser site article handout reference chaos sabotage clean \
	ray-up ray-down

help:
	@echo "make reproduce   train two seeds of the paper's network, evaluate, write reproduction/index.html"
	@echo "make quick       the same pipeline on the tiny preset, in about a minute (reproduction/tiny/index.html)"
	@echo "make explorer    an interactive page of the networks trained so far and of seven others (explorer/index.html)"
	@echo "make explorer-web  build the page's scripts from their sources (needs Node)"
	@echo "make explorer-ready  measure the page of the package's networks again, for assignadd explore without arguments"
	@echo "make test        lint, types and tests"
	@echo "make chaos       kill, starve and damage everything many times (CHAOS=\"--jobs 16\"); the table goes to docs/reliability.md"
	@echo "make sabotage    break the code in one place at a time, and show that the tests notice"
	@echo "make test-slow   the tests that take a minute or more of one core each"
	@echo "make test-ray    install Ray and test sweeps on a cluster of this machine"
	@echo "make site        documentation, findings, article, report and interactive page in one folder (site/index.html)"
	@echo "make article     the article as a PDF, its numbers collected anew (article/assign-and-add-replicated.pdf)"
	@echo "make handout     the handout of the class (notebooks/handout.pdf)"
	@echo "make reference   write docs/reference.md from the code, and the notebooks from their scripts"
	@echo "make ray-up      start a Ray cluster here, for assignadd sweep --engine ray; make ray-down stops it"
	@echo "make clean       remove the virtual environment (runs/ and reproduction/ stay)"

reproduce: $(VENV)/.core
	$(BIN)/assignadd reproduce

quick: $(VENV)/.core
	$(BIN)/assignadd reproduce --preset tiny --wanted 1 --out reproduction/tiny

explorer: $(VENV)/.core
	$(BIN)/assignadd explore $(wildcard runs/paper-seeds-?-?) census-six small-trajectory --out explorer

explorer-web: $(WEB)/node_modules/.package-lock.json
	cd $(WEB) && npm run --silent check && npm run --silent build

# Half a minute; after a change of the networks, of the tables of seeds, or of the claims that the page quotes. A test says when.
explorer-ready: $(VENV)/.core
	$(BIN)/python -m tests.page.make_ready

# The browser is fetched while Python's packages are. A file of tests on each core at a time (tests/schedule.py); one thread
# each, so that they do not fight for the cores. mypy, which takes one core, runs beside them; what it says comes last. The
# kernels are compiled before, as otherwise each process would compile them.
test:
	@$(MAKE) --silent browser & browser=$$!; $(MAKE) --no-print-directory lint; lint=$$?; wait $$browser; exit $$lint
	@$(BIN)/mypy > $(VENV)/mypy.log 2>&1 & types=$$!; $(FIRST_STEP); \
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder; tests=$$?; \
	wait $$types || tests=1; cat $(VENV)/mypy.log; exit $$tests

# A minute or more each: the tiny preset trained and reported, the benchmark, the ledger with more sequences.
test-slow: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow

test-ray: $(VENV)/.ray $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/sweeps/test_cluster.py

# Beside the pinned version: each in a folder of its own, with what it needs in another version. No dependencies are
# installed with them, so that torch stays the one that is there.
LENS_2 := transformer-lens==2.18.0 better-abc==0.0.3 transformers==4.57.1 huggingface-hub==0.36.2 tokenizers==0.22.2 datasets==3.6.0 fsspec==2025.3.0
LENS_3 := transformer-lens==3.9.0 better-abc==0.0.3
test-lens: $(VENV)/lens-2 $(VENV)/lens-3
	@for version in 2 3; do \
		PYTHONPATH=$(VENV)/lens-$$version OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/runs/test_lens_bridge.py || exit 1; \
	done

$(VENV)/lens-%: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $@ $(LENS_$*)
	@touch $@

# The explorer's tests drive a browser, and build the page's sources where Node is there; without them they are skipped.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
		&& apt-get install --yes --quiet --no-install-recommends chromium >/dev/null 2>&1; } || echo "no Chromium here: the explorer's page tests are skipped"
	@{ command -v npm >/dev/null && $(MAKE) --silent $(WEB)/node_modules/.package-lock.json; } \
		|| echo "no Node packages here: the tests of the page's sources are skipped"

$(WEB)/node_modules/.package-lock.json: $(WEB)/package-lock.json
	cd $(WEB) && npm install --no-save --silent --no-audit --no-fund
	@touch $@

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

check: lint
	$(BIN)/mypy

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Numba compiles each function when it is first called. A step of training, with its measures and with a batch that is
# large enough for two threads, calls all that training needs, so that the first run does not wait for them; where it fails,
# that run says why.
FIRST_STEP := rm -rf $(VENV)/first-run; $(BIN)/assignadd train --preset smoke --optim.steps 1 --optim.batch 128 \
	--record.measure-every 1 --threads 2 --out $(VENV)/first-run > /dev/null 2>&1; rm -rf $(VENV)/first-run

# A stamp per set of dependencies, so that a second call installs nothing.
$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[fast]'
	@echo "compiling the kernels, about 40 seconds"
	@$(FIRST_STEP)
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[dev,lens]' || { echo "TransformerLens cannot be installed: its tests are skipped"; $(PIP) -e '.[dev]'; }
	@touch $@ $(VENV)/.core

$(VENV)/.ray: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[fast,ray]'
	@touch $@ $(VENV)/.core

# On the loopback alone unless ADDRESS is another of this machine (docs/cluster.md), no dashboard, and nobody without the token in ~/.ray/auth_token.
# Without the last variable Ray takes 127.0.0.1 to mean the address at which other machines reach this one.
ray-up: ADDRESS ?= 127.0.0.1
ray-up: $(VENV)/.ray
	$(BIN)/ray get-auth-token --generate > /dev/null
	RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0 RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 \
		$(BIN)/ray start --head --node-ip-address=$(ADDRESS) --include-dashboard=false

ray-down:
	RAY_AUTH_MODE=token $(BIN)/ray stop

# Outside `make test`, which has a few trials of each: hours on two cores. CHAOS="--share 0.1" takes a tenth.
chaos: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.chaos --write $(CHAOS)

# Breaks one thing at a time, and shows that the tests notice; about an hour.
sabotage: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.sabotage --write

# The pages are plain Markdown; Sphinx makes a site of them, and of three more that only the site has (commands, data, studies).
# Warnings, such as a link to nowhere, are errors. The report is that of the package's networks, which takes a minute or two.
site: $(VENV)/.docs
	$(BIN)/python docs/generate.py --site
	$(BIN)/sphinx-build --write-all --fresh-env --quiet --fail-on-warning --keep-going --conf-dir docs . site
	cd site && ../$(BIN)/assignadd explore -o explorer && ../$(BIN)/assignadd report census-six --n 1000 -o report
	$(BIN)/python docs/head.py site
	@echo site/index.html

# Numbers from the ledger and the tables of the findings, by id; a minute or two.
article: $(VENV)/.article
	$(BIN)/python article/build.py --collect

# One page, without fonts of this machine: the same text gives the same bytes.
handout: $(VENV)/.article
	cd notebooks && ../$(BIN)/python -c "import typst; typst.compile('handout.typ', output='handout.pdf', ignore_system_fonts=True, timestamp=0)"

reference: $(VENV)/.core
	$(BIN)/python docs/generate.py
	$(BIN)/python notebooks/convert.py

$(VENV)/.article: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[article,fast]'
	@touch $@ $(VENV)/.core

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[docs,fast]'
	@touch $@ $(VENV)/.core

clean:
	rm -rf $(VENV)
