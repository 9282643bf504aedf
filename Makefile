# Each target makes its own environment and installs what it needs; nothing has to be activated.
PYTHON ?= python3
BIN := .venv/bin
PYTEST := -m pytest --numprocesses 2 --dist worksteal
REST := --ignore=tests/torch_backend --ignore=tests/app --ignore=tests/reproduction --ignore=tests/site
export MPLBACKEND := Agg
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test test-all test-slow test-claims test-torch test-explorer test-cpus test-oldest \
	test-pythons lint bench plans stress explore dist dist-check record docs test-site help

help:
	@echo "make demo   reproduce every claim of the paper, write results/report.html"
	@echo "make test   lint, types, the quick tests and doctests (about eight minutes on two cores)"
	@echo "make test-all  everything: also the slow tests, claims, torch, the explorer"
	@echo "make docs   the site, examples executed, into build/site/index.html (opens from disk)"
	@echo "make test-site  the site in a real browser: links, search, formulas, axe, phones"
	@echo "make test-claims  every claim at tiny size; a wrong theory must fail it"
	@echo "make test-torch  the same fits and simulations on torch tensors (installs torch)"
	@echo "make test-explorer  the explorer, in a real browser"
	@echo "make test-cpus  the quick tests as other processors would compute them"
	@echo "make test-oldest  the quick tests with the oldest packages that are allowed"
	@echo "make test-pythons  the quick tests with every Python from 3.11 on that is here"
	@echo "make explore  the theory in the browser"
	@echo "make lint   ruff and mypy"
	@echo "make plans  200 random plans, simulated as they stand (docs/plans.md; 20 minutes)"
	@echo "make stress 1320 random problems over many decades, none unsolved"
	@echo "make bench  measured speed of theory and simulation (tables)"
	@echo "make record  screenshots, measurements, every claim at the paper's sizes (hours)"
	@echo "make dist   sdist and wheel of the last commit, the same bytes each time, checked as a user has them"

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
	$(BIN)/python $(PYTEST) -m "not slow" --durations 12 $(REST)

test-slow: .venv/installed
	scripts/install-browser
	$(BIN)/python $(PYTEST) -m slow --durations 12 $(REST)

test-all: test test-slow test-claims test-torch test-explorer docs test-site

test-claims: .venv/installed
	scripts/install-browser
	$(BIN)/python $(PYTEST) tests/reproduction

test-explorer: .venv/installed
	scripts/install-browser
	scripts/npm-package axe-core@4.14.0
	$(BIN)/python $(PYTEST) tests/app

.venv/docs: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

docs: .venv/docs
	$(BIN)/python scripts/build-site

test-site: docs
	scripts/install-browser
	scripts/npm-package axe-core@4.14.0
	$(BIN)/python $(PYTEST) tests/site

.venv/torch: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch==2.13.0
	touch $@

test-torch: .venv/torch
	$(BIN)/python $(PYTEST) tests/torch_backend

test-cpus: .venv/installed
	scripts/test-cpus $(REST)

test-pythons:
	scripts/test-pythons $(REST)

# other packages' deprecations are theirs; scikit-learn 1.6 wants SCIPY_ARRAY_API for its own checks
test-oldest:
	$(PYTHON) -m venv .venv-oldest
	scripts/oldest-versions > .venv-oldest/pins.txt
	.venv-oldest/bin/python -m pip install --quiet --constraint .venv-oldest/pins.txt \
		--editable '.[test,app,dask,mpi,parquet]'
	SCIPY_ARRAY_API=1 .venv-oldest/bin/python $(PYTEST) -m "not slow" -W ignore::DeprecationWarning $(REST)

.venv/dist: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dist]'
	touch $@

dist: .venv/dist
	BUILDER=$(BIN)/python scripts/dist dist
	$(MAKE) dist-check

# in empty environments: without extras and with each (torch has builds of its own)
dist-check:
	scripts/check-wheel dist/sparsetoken-*.whl --extra app --extra bags --extra dask --extra mpi --extra parquet \
		$$(scripts/pythons 2>/dev/null | sed -n '1p;$$p' | uniq | sed 's/^/--python /')

record: .venv/installed
	scripts/record

explore: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[app]'
	$(BIN)/sparsetoken explore

plans: .venv/installed
	$(BIN)/python benchmarks/plans.py --count 200 --processes 2 --out docs/plans

stress: .venv/installed
	$(BIN)/python $(PYTEST) --problems 1320 tests/theory/test_robustness.py

bench: .venv/installed
	$(BIN)/python benchmarks/theory.py
	$(BIN)/python benchmarks/floors.py
	$(BIN)/python benchmarks/covariances.py
	$(BIN)/python benchmarks/simulation.py
	$(BIN)/python benchmarks/sweeps.py
	$(BIN)/python benchmarks/planner.py
