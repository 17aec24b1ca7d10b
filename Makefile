PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: run test test-all simulate lint format bench clean

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@

run: $(INSTALLED)
	$(BIN)/kbroker dev --data-dir ./data $(OPTIONS)

test: $(INSTALLED)
	$(BIN)/python -m pytest -m 'not all' -n 2 --dist worksteal

test-all: $(INSTALLED)
	$(BIN)/python -m pytest -m all

simulate: $(INSTALLED)
	$(BIN)/python -m tests.sim --count 2000

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
