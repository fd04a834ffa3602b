# Two commands do everything: `make demo` and `make test`. Each target sets up what it needs in .venv:
# the demo what Stoker itself needs, tests and checks the tools of developers, benchmarks their rivals.
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e

.PHONY: demo test check bench proof docs clean
.DELETE_ON_ERROR:

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Stoker needs Python 3.11 or newer; say which with: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) .
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	$(INSTALL) '.[dev]'
	@touch $@

$(VENV)/.ready-bench: $(VENV)/.ready-dev
	$(INSTALL) '.[bench]'
	@touch $@

demo: $(VENV)/.ready
	@$(BIN)/stoker demo

test: $(VENV)/.ready-dev
	PYTHONHASHSEED=0 $(BIN)/python -m pytest

check: $(VENV)/.ready-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m stoker.cli.reference --check docs/reference

docs: $(VENV)/.ready-dev
	$(BIN)/python -m stoker.cli.reference --write docs/reference

bench: $(VENV)/.ready-bench
	$(BIN)/python -m bench

proof: $(VENV)/.ready-dev
	$(BIN)/python -m proof

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
