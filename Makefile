# `make` alone lists the targets. Needs Python 3.11, Java 17 and a package index; the tests of Azure and Google
# also need npm and go, which install their emulators.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install quickstart test lint bench soak fuzz clients clean

VENV := .venv
BIN := $(VENV)/bin
KERNELS := $(wildcard sparklog/record/kernels/*.py)
# Tests that need no JVM run under coverage, with the same examples on every run, so that chance decides no line.
# tests/unit runs without the JIT, so that the kernels' lines count, and a second time with the JIT and new
# examples. Commands and imports are the same with it.
# Each pytest imports only the folders that it runs.
JVM := tests/spark tests/kafka tests/cluster
# A process that has done its tests takes over some of the other's.
PARALLEL := -n 2 --dist worksteal
COVERED = $(BIN)/coverage run -m pytest -q $(PARALLEL) --hypothesis-profile=ci

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1@\2/p' Makefile | awk -F@ '{printf "  %-16s %s\n", $$1, $$2}'

install: $(VENV)/.installed $(VENV)/.kernels ## Make .venv with everything a developer needs

quickstart: install ## Run the main job: 336,776 flights into a topic and out again
	$(BIN)/python examples/quickstart.py

test: install lint ## Run every check, and all tests but soak and clients
	$(BIN)/coverage erase
	NUMBA_DISABLE_JIT=1 $(COVERED) tests/unit
	$(COVERED) $(addprefix --ignore ,tests/unit tests/test_tidy.py tests/clients $(JVM)) -m "not soak"
	$(BIN)/coverage combine -q
	$(BIN)/coverage report
	$(BIN)/pytest -q $(PARALLEL) tests/unit --ignore tests/unit/cli --ignore tests/unit/spark
	$(BIN)/pytest -q $(PARALLEL) $(JVM)

lint: install ## Check style, types, layers and house numbers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -q tests/test_tidy.py

bench: install ## Measure against the floors and against Spark's Kafka connector
	$(BIN)/python -m bench

soak: install ## Run the tests that take minutes to hours
	$(BIN)/pytest -m soak tests/soak

fuzz: install ## Fuzz every parser of untrusted bytes, a minute each
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m tests.soak.fuzz

clients: install ## Run clients in many languages, Streams and Connect against a gateway; also needs kcat, npm
	$(BIN)/pytest -m clients tests/clients

clean: ## Remove .venv and everything that was built; keep fetched jars
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf .coverage .coverage.* sparklog-data spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment is checked on every call, for it may have changed since the installation.
.PHONY: environment
environment:
	@sh scripts/check_env.sh >/dev/null

$(VENV)/.installed: pyproject.toml constraints.txt | environment
	@echo "Making $(VENV) with everything a developer needs; the first time takes a minute or two."
	@python=$$(sh scripts/check_env.sh) && \
	    { $(BIN)/python -c '' 2>/dev/null || "$$python" -m venv --clear $(VENV); }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(VENV)/.kernels: $(VENV)/.installed $(KERNELS)
	$(BIN)/python -m sparklog.record.kernels
	@touch $@
