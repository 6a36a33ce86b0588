# `make study` runs the main job, `make test` the tests; both set up everything they need.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: help study test check format clean
help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/:/'

study: $(READY)  ## analyse a stored study of a real job: scaling, causes, price, recommendation
	@mkdir -p out
	$(BIN)/nodewise scale examples/ddp-step.csv
	$(BIN)/nodewise attribute examples/ddp-step.csv
	$(BIN)/nodewise decide examples/ddp-step.csv --price 0.8064 --price-source "AWS m7i.4xlarge on demand, us-east-1, 2026-08-22" --fixed 2
	@$(BIN)/nodewise decide examples/ddp-step.csv --price 0.8064 --price-source "AWS m7i.4xlarge on demand, us-east-1, 2026-08-22" --fixed 2 --json > out/decision.json
	@echo "The same for machines: out/decision.json"

test: check  ## checks, then all tests
	$(BIN)/python -m pytest

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
