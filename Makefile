# calve: `make demo` shows it, `make test` checks it. Both prepare what they need.
#
#   make env                         .venv with the locked packages and the project, editable
#   make lint types layers           the quick checks
#   make unit simulation spark engines servers docs     one group of tests each
#   make nightly soak bench          what takes longer
#   make fmt lock clean
#
# Knobs: PYTEST_ARGS='-k commit -x'   more words for pytest
#        JOBS=4                       test processes of the group that runs in parallel (2)
#        SEEDS=100000                 seeds of the soak
#        UPGRADE=1                    let `make lock` take newer releases
#        PYTHON=/path/to/python3.12   the Python that .venv is made from

# Paths below are relative, so that a folder with a space in its name is no trouble.
PY := .venv/bin/python
UV := .tools/bin/uv
CHECK = $(PY) tools/check.py
DEMO ?= .venv/bin/calve demo
SEEDS ?= 100000

COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade)

.NOTPARALLEL:
.DEFAULT_GOAL := help

help:
	@sed -n '1,/^$$/s/^# \{0,1\}//p' Makefile

demo: env
	@$(DEMO)

test: need-java env jars
	@$(CHECK) --coverage all

lint types layers unit simulation engines servers docs coverage: env
	@$(CHECK) $@

spark: need-java env jars
	@$(CHECK) $@

nightly: need-java env jars
	@$(CHECK) --nightly all

soak: env
	@SEEDS=$(SEEDS) $(PY) -m tests.simulation.soak --seeds $(SEEDS)

bench: env
	@$(PY) -m benchmarks $(BENCH_ARGS)

env:
	@python=$$(sh tools/need.sh python) && "$$python" tools/env.py

jars: need-java env
	@$(PY) tools/jars.py

lock:
	@python=$$(sh tools/need.sh python) && "$$python" tools/env.py --tools
	@$(COMPILE) --group tools --output-file requirements/tools.lock >/dev/null
	@$(COMPILE) pyproject.toml --group dev --all-extras --output-file requirements/dev.lock >/dev/null
	@! grep -n '://' requirements/*.lock || { echo 'lock: a lock names a host' >&2; exit 1; }

fmt: env
	@$(PY) -m ruff check --fix-only --quiet .
	@$(PY) -m ruff format .

need-java:
	@sh tools/need.sh java

clean:
	rm -rf .venv .tools .jars .env.lock .mypy_cache .ruff_cache .pytest_cache .import_linter_cache \
		.hypothesis .coverage .coverage.* htmlcov build dist

.PHONY: help demo test lint types layers unit simulation spark engines servers docs coverage nightly soak \
	bench env jars lock fmt need-java clean
