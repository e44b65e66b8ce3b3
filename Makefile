PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test lint bench vllm-check clean

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
	$(BIN)/python benchmarks/server.py

# A real server's log-probabilities against hf:. Makes an environment of 3.5 GB under .servers (8 minutes), so not for every run.
vllm-check: $(READY)
	$(BIN)/python tests/servers/vllm_check.py

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt 'torch==2.13.0'
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .coverage* dist
