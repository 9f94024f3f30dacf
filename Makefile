# calve: `make demo` shows it, `make test` checks it. Both prepare what they need.
#
#   make env                         .venv with the locked packages and the project, editable
#   make lint types layers           the quick checks
#   make unit simulation spark engines servers docs     one group of tests each
#   make nightly soak bench          what takes longer
#   make coverage                    all tests of the day once more, and how much of the code they reach
#   make nemesis SECONDS=600 SEED=7  drivers on real Spark, killed again and again; every snapshot compared
#   make faults SECONDS=600 SEED=7   two runs of a sink and a network that lies to them, on a real catalog
#   make mutations                   each promise of the pipeline broken on purpose, and found out
#   make spark-versions              the tests of the Spark pipeline on every release of PySpark that it works on
#   make site                        the documentation, for a browser, in site/
#   make pages pictures              tables of pages that are made from code; pictures of a terminal, recorded
#   make fmt lock clean
#
# Knobs: PYTEST_ARGS='-k commit -x'   more words for pytest
#        JOBS=4                       test processes of the group that runs in parallel (2)
#        LANES=1                      one group of `make test` after the other, printed as it goes (2 at a time)
#        SEEDS=100000                 seeds of the soak
#        SECONDS=600 SEED=7           of the nemesis and of the faults
#        NEMESIS_ARGS='--lake rest'   and more of the nemesis; FAULTS_ARGS='--server seaweedfs' of the faults
#        VERSIONS='4.0.5 4.3.0'       some releases of PySpark instead of all
#        PICTURES='help'              some pictures instead of all
#        UPGRADE=1                    let `make lock` take newer releases
#        PYTHON=/path/to/python3.12   the Python that .venv is made from

# Paths below are relative, so that a folder with a space in its name is no trouble.
PY := .venv/bin/python
UV := .tools/bin/uv
TOOLS_PY := .tools/bin/python
CHECK = $(PY) tools/check.py
DEMO ?= .venv/bin/calve demo
SEEDS ?= 100000
SECONDS ?= 600

COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade)

.NOTPARALLEL:
.DEFAULT_GOAL := help

help:
	@sed -n '1,/^$$/s/^# \{0,1\}//p' Makefile

demo: need-java env
	@$(DEMO)

test: need-java need-node env jars npm
	@$(CHECK) all

coverage: need-java need-node env jars npm
	@$(CHECK) --coverage all

lint types layers unit simulation engines: env
	@$(CHECK) $@

servers: need-java need-node env jars npm
	@$(CHECK) $@

docs: need-java env
	@$(CHECK) $@

spark: need-java env jars
	@$(CHECK) $@

nightly: need-java need-node env jars-nightly npm
	@$(CHECK) --nightly all

spark-versions: need-java env jars
	@$(PY) -m tools.versions $(VERSIONS)

soak: env
	@SEEDS=$(SEEDS) $(PY) -m tests.simulation.soak --seeds $(SEEDS)

nemesis: need-java env jars
	@$(PY) -m tests.nemesis --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(NEMESIS_ARGS)

faults: need-java env jars
	@$(PY) -m tests.faults --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(FAULTS_ARGS)

mutations: need-java env jars
	@$(PY) -m pytest -q -m 'not nightly or nightly' tests/nemesis/test_mutations.py \
		tests/faults/test_mutations.py $(PYTEST_ARGS)

bench: need-java env jars
	@$(PY) -m benchmarks $(BENCH_ARGS)

site: env
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet --strict
	@echo site/index.html

pages: env
	@$(PY) -m tools.pages
	@$(PY) -m tests.docs.failures
	@$(PY) -m calve.config.options > docs/options.md
	@$(PY) -m calve.config.ddl > docs/types.md

pictures: need-java env
	@$(PY) -m tools.record $(PICTURES)

env:
	@python=$$(sh tools/need.sh python) && "$$python" tools/env.py

jars: need-java env
	@$(PY) tools/jars.py

jars-nightly: need-java env
	@$(PY) tools/jars.py --nightly

npm: need-node env
	@$(PY) tools/npm.py

lock: need-node
	@python=$$(sh tools/need.sh python) && "$$python" tools/env.py --tools
	@$(COMPILE) --group tools --output-file requirements/tools.lock >/dev/null
	@$(COMPILE) pyproject.toml --group dev --all-extras --output-file requirements/dev.lock >/dev/null
	@$(TOOLS_PY) tools/npm.py --lock
	@! grep -n '://' requirements/*.lock requirements/*.json || { echo 'lock: a lock names a host' >&2; exit 1; }

fmt: env
	@$(PY) -m ruff check --fix-only --quiet .
	@$(PY) -m ruff format .

need-java:
	@sh tools/need.sh java

need-node:
	@sh tools/need.sh node

clean:
	rm -rf .venv .venvs .tools .jars .npm .env.lock .mypy_cache .ruff_cache .pytest_cache .import_linter_cache \
		.hypothesis .coverage .coverage.* htmlcov site build dist

.PHONY: help demo test lint types layers unit simulation spark engines servers docs coverage nightly \
	spark-versions soak nemesis faults mutations bench site pages pictures env jars jars-nightly npm lock fmt need-java need-node clean
