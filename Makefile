PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test lint bench pylate clean

run: $(READY)
	$(BIN)/kshot run

test: $(READY) lint
	$(BIN)/python -m pytest -n auto --dist worksteal --cov --cov-report=term --cov-fail-under=90

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/retrievers.py
	$(BIN)/python benchmarks/evidence.py
	$(BIN)/python benchmarks/search.py

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt 'torch==2.13.0'
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	touch $(READY)

# PyLate itself, which works with sentence-transformers before 6; later ones read the same models by themselves
pylate: $(READY)
	$(BIN)/pip install -q --no-deps --upgrade --target .pylate 'sentence-transformers==5.3.0' 'pylate==1.6.0'
	PYTHONPATH=.pylate $(BIN)/python -m pytest -p no:xdist tests/backends/search/test_late.py

clean:
	rm -rf $(VENV) .pylate .pytest_cache .mypy_cache .ruff_cache .coverage* dist
