# Each target makes its own .venv and installs what it needs; nothing has to be activated.
PYTHON ?= python3
BIN := .venv/bin
export MPLBACKEND := Agg
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test test-claims test-torch test-explorer lint bench stress explore help

help:
	@echo "make demo   reproduce every claim of the paper, write results/report.html"
	@echo "make test   lint, types, tests and doctests"
	@echo "make test-claims  every claim at tiny size; a wrong theory must fail it"
	@echo "make test-torch  the same fits and simulations on torch tensors (installs torch)"
	@echo "make explore  the theory in the browser"
	@echo "make test-explorer  the explorer, in a real browser"
	@echo "make lint   ruff and mypy"
	@echo "make stress 1320 random problems over many decades, none unsolved"
	@echo "make bench  measured speed of theory and simulation (tables)"

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

demo: .venv/installed
	$(BIN)/sparsetoken reproduce --quick --out results

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	scripts/install-browser
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal --durations 12 --ignore=tests/torch_backend \
		--ignore=tests/app --ignore=tests/reproduction

test-claims: .venv/installed
	scripts/install-browser
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal tests/reproduction

test-explorer: .venv/installed
	scripts/install-browser
	$(BIN)/python -m pytest --numprocesses 2 tests/app

.venv/torch: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch==2.13.0
	touch $@

test-torch: .venv/torch
	$(BIN)/python -m pytest --numprocesses 2 tests/torch_backend

explore: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[app]'
	$(BIN)/sparsetoken explore

stress: .venv/installed
	$(BIN)/python -m pytest --numprocesses 2 --problems 1320 tests/theory/test_robustness.py

bench: .venv/installed
	$(BIN)/python benchmarks/theory.py
	$(BIN)/python benchmarks/simulation.py
	$(BIN)/python benchmarks/sweeps.py
	$(BIN)/python benchmarks/planner.py
