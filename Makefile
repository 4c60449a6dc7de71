# Every target makes .venv on its first use, and again when what it is made from changes.
# Options: PYTHON=python3.12 (any Python from 3.11 on), MODELS=splade (what `make demo` trains),
# BENCH=searching (what `make bench` measures), WORKERS=4 (processes that run the tests, of some 3 GB each),
# VENV=DIR (another environment, so that two Pythons can take turns).

PYTHON ?= python3
MODELS ?=
ALL ?=
BENCH ?=
VENV ?= .venv
WORKERS ?= 2

# Nothing of these rows is trained.
demo := eval.reproduce --matrix demo --in-process --output $(or $(LEARNED_SPARSE_HOME),learned_sparse_home)/results/demo \
  --row BM25 splade-tiny hybrid

installed := $(VENV)/.installed
ready := $(VENV)/.ready
bin := $(VENV)/bin
# The tests of one file share fixtures; the slow files come first.
pytest := $(bin)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: help demo test test-jvm test-faults test-rehearsals test-neighbours test-gpu test-browser check bench clean

help:
	@echo "make demo                 a published model, then four trained ones, on this Python's own documentation"
	@echo "make demo MODELS=splade   the same with one trained model (or MODELS=\"splade uhd\")"
	@echo "make test                 the checks, then the tests"
	@echo "make test-jvm             only the tests with Java: make test-jvm PYTHON=python3.12 VENV=.venv-3.12 has Pyserini 2"
	@echo "make test ALL=yes         what CI runs: also kills, bad input, longer examples, benchmarks, several machines, bf16"
	@echo "make test-faults          kill, damage and race every command; 2,000 inputs for each reader: ten minutes"
	@echo "make test-rehearsals      every row and column of every leaderboard, with toy models: an hour"
	@echo "make test-neighbours      install the engines and servers that exports are for, and load exports into them"
	@echo "make test-gpu             the tests that need a GPU; without one it fails"
	@echo "make test-browser         the tests of the local page in Chromium; without one it fails and says how to get it"
	@echo "make check                style, types, imports between packages"
	@echo "make bench                measure speed and memory beside other toolkits: half an hour, on a machine at rest"
	@echo "make bench BENCH=training the same with one benchmark (or BENCH=\"training encoding\")"
	@echo "make clean                remove .venv"

demo: $(installed)
	$(bin)/python -m $(demo)
	$(bin)/python -m $(demo) $(or $(MODELS),sparterm splade spade uhd)
	@echo "next, a page to search these indexes side by side: $(bin)/python -m learned_sparse.serve"

test: check
	$(if $(ALL),TEST_DTYPE=bf16 )$(pytest) $(if $(ALL),-m 'not published and not faults')

test-jvm: $(ready)
	$(pytest) -m 'jvm and not slow and not published and not faults'

test-rehearsals: $(ready)
	RELIABILITY=full $(bin)/python -m pytest tests/eval/reproduce/test_rehearsal.py -m slow --numprocesses $(WORKERS)

test-neighbours: $(ready)
	$(bin)/python -m pip install --quiet --constraint constraints.txt --editable '.[neighbours]'
	NO_SKIPS=1 $(bin)/python -m pytest tests/learned_sparse/export tests/learned_sparse/search tests/eval/test_costs.py -m 'not published'

test-gpu: $(ready)
	$(bin)/python -c 'import sys, torch; sys.exit(None if torch.cuda.is_available() else "error: torch finds no GPU")'
	$(bin)/python -m pytest -m gpu

test-faults: $(ready)
	RELIABILITY=full $(bin)/python -m pytest tests/reliability -m 'not published' --numprocesses $(WORKERS) --dist worksteal

test-browser: $(ready)
	@for name in chromium chromium-browser google-chrome chrome; do command -v $$name > /dev/null && exit; done; \
	  echo "error: no Chromium on PATH; on Debian: apt install chromium; on macOS: brew install --cask chromium"; exit 1
	$(bin)/python -m pip install --quiet --constraint constraints.txt --editable '.[browser]'
	$(bin)/python -m pytest -m browser

check: $(ready)
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy --num-workers $(WORKERS)
	$(bin)/lint-imports

bench: $(ready)
	$(bin)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(bin)/python -m tests.benchmarks.run $(BENCH)
	$(bin)/python -m tests.benchmarks.report

clean:
	rm -rf $(VENV)

# What users need, for `make demo`; or with the tools of developers: tests, style, types, other engines.
$(installed): extras := train,demo
$(ready): extras := train,data,demo,dev
# --no-compile: Python compiles what it imports, a small part of what is installed.
$(installed) $(ready): setup.cfg pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: $(PYTHON) is missing or older than Python 3.11; name a newer one: make PYTHON=/path/to/python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { \
	  echo "error: $(PYTHON) cannot make a virtual environment; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	$(bin)/python -m pip install --no-compile --constraint constraints.txt --editable '.[$(extras)]'
	touch $(installed) $@
