# Two commands do everything: `make demo` and `make test`. Each target sets up what it needs in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test check bench proof docs clean
.DELETE_ON_ERROR:

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Stoker needs Python 3.11 or newer; say which with: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(READY)
	@$(BIN)/stoker demo

test: $(READY)
	PYTHONHASHSEED=0 $(BIN)/python -m pytest

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m stoker.cli.reference --check docs

docs: $(READY)
	$(BIN)/python -m stoker.cli.reference --write docs

bench: $(READY)
	$(BIN)/python -m bench

proof: $(READY)
	$(BIN)/python -m proof

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
