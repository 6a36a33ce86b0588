# `make study` runs the main job, `make test` the tests; both set up everything they need.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: help study test test-engines check format clean
TORCH ?= torch==2.13.0
help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/:/'

study: $(READY)  ## measure a real training job at K = 1, 2, 4, 8, attribute, price and decide
	@mkdir -p out
	$(BIN)/nodewise study examples/digits.toml -o out/digits.study || { \
	  test $$? -eq 3 && echo "No rehearsal here; measuring up to the free cores instead." && \
	  $(BIN)/nodewise study examples/digits_mpi.toml -o out/digits-mpi.study; }

test: check  ## checks, then all tests
	@scripts/chromium.sh
	$(BIN)/python -m pytest

test-engines: $(READY)  ## the heavy engines: installs torch (about 1 GB), then tests it for real
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)"
	$(BIN)/python -m pytest tests/engines tests/e2e/test_rehearsal.py --no-skips

check: $(READY)  ## format, lint, types, layers
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)  ## put the code into shape
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

clean:  ## remove everything that was made
	rm -rf .venv out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "nodewise needs Python 3.11 or newer; say which: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "python3-venv is missing; install it: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@
