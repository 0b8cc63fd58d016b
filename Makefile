# Two commands do everything: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
export PIP_NO_WARN_SCRIPT_LOCATION := 1

.PHONY: install run test test-system lint types layers unit kit fuzz soak docs bench lock clean help

help: ## Say what can be made.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

install: $(VENV)/.run ## Install the daemon into .venv/.

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or later is needed; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.run: $(VENV)/.python requirements/run.lock pyproject.toml
	$(PIP) install --require-hashes -r requirements/run.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.lock
	$(PIP) install --require-hashes -r requirements/dev.lock
	@touch $@

run: install ## Start the daemon on data/mcp.json.
	$(BIN)/mcp-supervisor run --config data/mcp.json

test: lint types layers unit ## Everything a change must pass.

lint: $(VENV)/.dev ## Style, with ruff.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev ## mypy strict (package and tests), pyright strict (package).
	$(BIN)/mypy & mypy=$$!; $(BIN)/pyright && wait $$mypy || { wait $$mypy; exit 1; }

layers: $(VENV)/.dev ## Who may import whom.
	$(BIN)/lint-imports

# Compiled once: each of the hundreds of daemons that the tests start would compile all of it, where writing bytecode is off.
COMPILE := $(BIN)/python -m compileall -q supervisor tests bench

# With AGAIN=1 a few tests that fail are run once more and named: tests/again.
CACHE := $(VENV)/.pytest
FRESH := $(if $(AGAIN),--cache-clear)
IF_NOT = || $(if $(AGAIN),tests/again $$? $(CACHE) $(1),exit $$?)

# Three at a time on any machine: many tests wait for something. The kit and the fuzzers go without the tracer, which takes half of their time.
TOGETHER := -n 3 --dist worksteal
unit: $(VENV)/.dev ## Tests with branch coverage, subprocesses included; the kit and the fuzzers without.
	$(COMPILE)
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -m "not system" --ignore=tests/kit --ignore=tests/fuzz $(TOGETHER) $(FRESH) $(call IF_NOT,$(BIN)/coverage run -m pytest)
	$(BIN)/python -m pytest tests/kit tests/fuzz $(TOGETHER) $(FRESH) $(call IF_NOT,$(BIN)/python -m pytest)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --fail-under=95
	$(BIN)/coverage report --include="supervisor/core/*" --fail-under=100

test-system: $(VENV)/.dev ## Tests on real servers and real systemd; installs what they need.
	tests/system/prepare
	$(COMPILE)
	$(BIN)/python -m pytest -m system -n 3 --dist loadfile --no-loadscope-reorder -rs tests/system $(FRESH) $(call IF_NOT,$(BIN)/python -m pytest)

kit: $(VENV)/.dev ## Every case of the hostile-server kit, KIT=20 times each.
	KIT=$(or $(KIT),20) $(BIN)/python -m pytest tests/kit

fuzz: $(VENV)/.dev ## Bytes and histories at random, FUZZ=2000 examples of each, and a tenth as many histories.
	FUZZ=$(or $(FUZZ),2000) $(BIN)/python -m pytest tests/fuzz --timeout=0

soak: $(VENV)/.dev ## Ten minutes of random trouble, every promise checked; SOAK=60, KILLS=10000, CALLS=200000, SEED=7, SERVERS=20 choose.
	$(BIN)/python -m tests.soak

docs: $(VENV)/.dev ## Regenerate what is generated: the lifecycle diagram, the schema.
	$(BIN)/python tools/diagram.py --write
	$(BIN)/python tools/schema.py
	$(BIN)/python tools/api_docs.py --write

bench: $(VENV)/.dev ## Figures, as ratios to a program that holds the child's pipes itself.
	$(COMPILE)
	$(BIN)/python -m bench

lock: $(VENV)/.dev ## Resolve the lock files anew.
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-annotate \
	  --upgrade pyproject.toml requirements/build.in --output-file requirements/run.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-annotate \
	  --upgrade pyproject.toml requirements/build.in --group dev --output-file requirements/dev.lock

clean: ## Remove what make made.
	rm -rf $(VENV) .tools .coverage .coverage.* .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
