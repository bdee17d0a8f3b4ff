# make demo    run the main job on embedded data           make test         lint, types and all tests
# make review  answer questions about the demo's labels    make bench        measure the speed claims
# make test-oldest, make test-newest   a selection of the tests with the oldest and newest dependencies
# make docs    build the documentation                     make torture      attack it for half an hour
# make clean   remove the environments and caches          make lock         renew requirements-dev.lock
# make release-check   build the distributions and try the wheel in a clean environment
# make audit-dependencies   look for published weaknesses of the locked dependencies, where the data can be had
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# One BLAS thread a process: several test processes with two threads each only fight over the cores.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo review test lint types unit browser bench env clean docs help test-oldest test-newest torture \
        release-check lock audit-dependencies

help:
	@sed -n '1,7p' Makefile

env: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("pmlkit needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@echo "Building the environment in $(VENV) (once, a minute or two)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(STAMP)

demo: $(STAMP)
	@$(BIN)/pmlkit demo

review: $(STAMP)
	@$(BIN)/pmlkit demo --review

test: lint types unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

unit: $(STAMP) browser
	$(BIN)/pytest -n 2 --dist worksteal

# The pages are tested in a real browser; without one these tests are skipped and say so.
browser:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  echo "Installing Chromium for the tests of the pages" && \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium; } >/dev/null 2>&1; } || true

# Dependencies at their lowest and newest versions that pyproject.toml allows, each in an environment of its own.
# A selection, for CI; `make test-oldest TESTS=tests` runs all.
TESTS ?= tests/metrics tests/numerics tests/data tests/methods/test_contract.py tests/test_persistence.py \
         tests/cleaning/test_cleaning.py tests/bench/test_plan.py tests/bench/test_evaluation.py \
         tests/bench/test_store.py tests/review/test_store.py tests/cli/test_clean.py
JOBS ?= 2
export UV_SYSTEM_CERTS ?= true
test-oldest test-newest: test-%:
	test -x .venv-$*/bin/python || $(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-$*/bin/uv pip install --quiet --python .venv-$*/bin/python \
	  --resolution $(if $(filter oldest,$*),lowest-direct,highest) --editable '.[dev]'
	.venv-$*/bin/python -m pytest -q -n $(JOBS) --dist worksteal -W default \
	  -W error::pmlkit.exceptions.PMLWarning $(TESTS)  # other versions may warn of what is theirs

docs: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,docs]'
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/site
	$(BIN)/python docs/check_links.py build/site

# The attacks of docs/reliability.md; each part has an end of its own, all of them in half an hour.
torture: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check atheris 2>/dev/null || true
	timeout 420 $(BIN)/python tests/torture/mends.py
	timeout 300 $(BIN)/python tests/torture/crash.py 260
	timeout 60 $(BIN)/python tests/torture/start_up.py
	timeout 310 $(BIN)/python tests/torture/guided.py 115
	timeout 720 $(BIN)/python tests/torture/fuzz.py 100000 '' 0 $(JOBS) 11

bench: $(STAMP)
	@for script in benchmarks/[a-z]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) .venv-oldest .venv-newest .pytest_cache .mypy_cache .ruff_cache .hypothesis

release-check: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,release]'
	$(BIN)/python tools/release_check.py

# Fails on a published weakness; names the packages about which nothing could be asked.
audit-dependencies: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/pip-audit --requirement requirements-dev.lock --no-deps --disable-pip

# The versions of a development environment that worked: pip install -r requirements-dev.lock --editable . --no-deps
lock: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --python $(BIN)/python pyproject.toml --extra dev --extra docs --extra release \
	  --no-header --no-annotate --no-emit-index-url --upgrade --output-file requirements-dev.lock
