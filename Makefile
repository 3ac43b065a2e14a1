# Two commands do everything: `make run` (the main job) and `make test`. Both need only Python 3.11+ with venv and pip.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: run test lint types services gate baseline killtest bench clean
.DELETE_ON_ERROR:

run: $(VENV)/run.stamp
	$(BIN)/neuron-ops sweep --target sim --ops core --dtypes float32,bfloat16
	@echo 'The site of these results starts with: $(BIN)/neuron-ops serve'

test: $(VENV)/test.stamp lint types services gate
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# What is type-checked and layer-checked is what gets installed, so the packages are laid out under build/types first.
types: $(VENV)/test.stamp
	rm -rf build/lib build/types
	$(PIP) install --quiet --no-deps --no-compile --target build/types .
	MYPYPATH=build/types $(BIN)/mypy --cache-dir .mypy_cache -p neuron_ops
	PYTHONPATH=build/types $(BIN)/lint-imports

services:
	@sh tests/install_services.sh

# The core operators on the simulated device must do what the committed baseline says; make baseline accepts what they do now.
gate: $(VENV)/test.stamp
	$(BIN)/python tests/core_gate.py

baseline: $(VENV)/test.stamp
	$(BIN)/python tests/core_gate.py --write

# 8,000 cases while everything that can be killed is, on three setups; some minutes. make test has a short form.
killtest: $(VENV)/test.stamp services
	$(BIN)/python tests/killing.py

# What the database, the site, the sandbox and the runner take; a quarter of an hour and 6 GB of disk.
bench: $(VENV)/test.stamp services
	$(BIN)/python tests/bench_database.py
	$(BIN)/python tests/bench_gate.py
	$(BIN)/python tests/bench_site.py
	$(BIN)/neuron-ops bank build --dtypes float32,bfloat16,int64
	$(BIN)/python tests/bench_workers.py
	$(BIN)/python tests/bench_harness.py
	$(BIN)/python tests/bench_check.py

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo '$(PYTHON) is missing: install Python 3.11 or newer, or name one with make PYTHON=...'; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo '$(PYTHON) is older than 3.11: name a newer one with make PYTHON=python3.11'; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo '$(PYTHON) has no venv module: install it (Debian: apt-get install python3-venv)'; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt --editable '.[run,site]'
	touch $@

$(VENV)/test.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt --editable '.[test]'
	$(PIP) install --quiet --constraint constraints.txt --no-deps timm  # it asks for torchvision, which would replace torch
	touch $@ $(VENV)/run.stamp

clean:
	rm -rf $(VENV) build dist *.egg-info
