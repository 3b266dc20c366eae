# `make demo` and `make test` need Python 3.11 or newer and git; they make their own .venv.
.PHONY: demo test lint check bench torture clean dist

PYTHON := $(shell for p in $(PYTHON) python3 python3.13 python3.12 python3.11 python; do \
  command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
STAMP := .venv/.installed

demo: $(STAMP)
	@$(BIN)/harness demo

test: $(STAMP)
	$(BIN)/python -m pytest -n auto $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

bench: $(STAMP)
	$(BIN)/python -m bench

torture: $(STAMP)
	$(BIN)/python -m tests.torture $(ARGS)

dist: $(STAMP)
	$(BIN)/python -m build

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer on PATH. Install one, or run: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "make: $(PYTHON) cannot make a virtual environment. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@echo "installing into .venv (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(STAMP)
