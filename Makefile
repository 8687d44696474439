# Everything a person does here. `make help` lists it.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DBT    := .venv-dbt

# Tests start many processes: each would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install mariadb mysql demo lab verdicts test fast soak chaos corpus lint format screens docs bench dbt clean

help: ## list what can be done
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## */\1|/' | awk -F'|' '{printf "  make %-8s %s\n", $$1, $$2}'

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Headwater needs Python 3.11 or newer: make PYTHON=python3.11 …"; exit 2; }
	@command -v java >/dev/null || { echo "Headwater needs Java 17 or newer for Spark: install a JDK and try again"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

install: $(READY) ## install Headwater and its development tools into .venv

mariadb: $(READY) ## a MariaDB for the tests, unpacked into your cache folder; nothing is installed
	@$(BIN)/python tests/mariadb_server.py

mysql: $(READY) ## a MySQL for the tests, out of Debian's sid, unpacked into your cache folder; nothing is installed
	@$(BIN)/python tests/mysql_server.py

demo: $(READY) ## three databases, three views, a few thousand transactions, verified: about a minute
	@$(BIN)/headwater demo

lab: $(READY) ## every published algorithm and the papers' experiments again; writes lab-report/report.html
	@$(BIN)/headwater lab run all

verdicts: $(READY) ## every claim of every experiment comes to what tests/lab/verdicts.toml says: long, JOBS=2 at once
	@$(BIN)/python -m pytest tests/lab/test_verdicts.py -m verdicts -n '$(or $(JOBS),2)'

test: $(READY) ## what must pass: style, types, package order, all tests but soak, chaos and verdicts
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports
	@$(BIN)/python -m pytest -n '$(or $(JOBS),3)' --dist loadfile --no-loadscope-reorder --durations=40 --durations-min=5

fast: $(READY) ## the tests that need neither a JVM nor a server
	@$(BIN)/python -m pytest -m 'not spark and not postgres and not mariadb and not mysql and not s3'

soak: $(READY) ## what takes minutes: writers that never rest, kills (-9) under load, TPC-H and every kind of query on the engine
	@$(BIN)/python -m pytest -m soak

chaos: $(READY) ## random statements, restores and kills against an oracle; SEEDS=13 for a hundred worlds, JOBS=2 at once
	@SEEDS='$(or $(SEEDS),1)' FIRST='$(or $(FIRST),1)' WORLD='$(WORLD)' $(BIN)/python -m pytest tests/chaos -m chaos --tb=short -rP -n '$(or $(JOBS),0)'

corpus: $(READY) ## other people's test suites as views: CORPUS=folder with a folder for each suite
	@cd tests && ../$(BIN)/python -m corpus '$(CORPUS)'

lint: $(READY) ## style, types and package order only
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(READY) ## let ruff put the code in order
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

screens: $(READY) ## the README's pictures of the live page, taken anew in a real browser (Debian's chromium-driver)
	@HEADWATER_SCREENS=docs/screens $(BIN)/python -m pytest tests/page/test_browser.py -m soak

docs: $(READY) ## the documentation as a site, .site/index.html; its reference is made from the code
	@$(BIN)/python docs/site/build.py

bench: $(READY) ## measure, beside peers where they can be installed; writes bench/out/
	@$(BIN)/python bench/run.py

dbt: ## the dbt adapter of integrations/dbt, tested with a real dbt in an environment of its own, .venv-dbt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Headwater needs Python 3.11 or newer: make PYTHON=python3.11 …"; exit 2; }
	@test -x $(DBT)/bin/python || $(PYTHON) -m venv $(DBT)
	@echo "installing into $(DBT) …"
	@$(DBT)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[engine]' './integrations/dbt[dev]'
	@$(DBT)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall ./integrations/dbt
	@cd integrations/dbt && $(abspath $(DBT))/bin/python -m pytest

clean: ## remove what the above made
	rm -rf $(VENV) $(DBT) demo-project lab-report bench/out .mypy_cache .ruff_cache .pytest_cache .hypothesis
