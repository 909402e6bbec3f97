# make demo and make test work from a bare checkout: they make .venv and install what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: setup demo test torture lint format bench docs clean

setup: $(VENV)/.installed

demo: setup
	@$(BIN)/oodometer demo

test: $(VENV)/.installed-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# A study that is killed 50 times, at length; make test does the same for seconds.
torture: $(VENV)/.installed-dev
	@OMP_NUM_THREADS=1 $(BIN)/python tests/torture.py

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Without the one that writes 8 GB, those that train for long, and the one that runs in another
# library's environment.
bench: $(VENV)/.installed-dev
	@for script in $(filter-out benchmarks/large.py benchmarks/pytorch_ood_times.py benchmarks/texts.py benchmarks/trained_detectors.py,$(wildcard benchmarks/*.py)); do echo "== $$script"; OMP_NUM_THREADS=1 $(BIN)/python $$script || exit 1; done

docs: $(VENV)/.installed-dev
	$(BIN)/python docs/make_pages.py
	$(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

clean:
	rm -rf $(VENV) build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Oodometer needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@# Debian keeps ensurepip in a package of its own; the system's pip can stand in for it.
	@if $(PYTHON) -c 'import ensurepip' 2>/dev/null; then $(PYTHON) -m venv $(VENV); \
	elif $(PYTHON) -m pip --version >/dev/null 2>&1; then \
		$(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip --python $(VENV)/bin/python install --quiet pip; \
	else echo "Python lacks both ensurepip and pip; on Debian: apt install python3-venv"; exit 1; fi

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing Oodometer into $(VENV) (about a minute) ..."
	@$(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing Oodometer and its development tools into $(VENV) (about a minute) ..."
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.installed
