# The book's commands; each sets up what it needs. `make help` lists them.

# What is typed reaches the programs by the environment, as it is: it is never part of a command's text,
# where a shell would run what stands in backquotes.
PRESET ?= quick
PORT ?= 8000
SEEDS ?= 8
BUILDS ?= 100
override PRESET := $(value PRESET)
override NAME := $(value NAME)
override ID := $(value ID)
override SEED := $(value SEED)
override SEEDS := $(value SEEDS)
override BUILDS := $(value BUILDS)
override PORT := $(value PORT)
override ONLY := $(value ONLY)
override FROM := $(value FROM)
override BUILDER := $(value BUILDER)
override A := $(value A)
override B := $(value B)
export PRESET NAME ID SEED SEEDS PORT ONLY FROM A B BUILDER BUILDS OWN

VENV := .venv
BENCH := .venv-bench
PY := $(VENV)/bin/python
UV := $(VENV)/bin/uv
# It trusts what the system trusts, as pip does: some networks have certificates of their own
export UV_SYSTEM_CERTS ?= true
PYTHON ?= $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11 python3.15,$(if \
  $(shell $(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo yes),$(name))))
JOB := $(PY) -m companion.pipeline

# Words typed as name=value that are no setting of this file are parameters of a chapter
override OWN := PRESET SEED SEEDS NAME ID PORT PYTHON BROWSER_TESTS ONLY FROM A B BUILDER BUILDS
TYPED := $(filter-out $(OWN:%=%=%),$(foreach word,$(MAKEOVERRIDES),$(if $(findstring =,$(word)),$(word))))
unexport $(foreach word,$(TYPED),$(firstword $(subst =, ,$(word))))

.DEFAULT_GOAL := help
.PHONY: help setup setup-tests book plan fetch-results diff report test test-launch mutants faults soak test-pages chapter claim seeds serve bench accept-verdicts redraw lock dag clean known-settings pdf

help: ## this list
	@echo "make book [PRESET=quick|paper]   build the book; ends with the page to open"
	@echo "                                 BUILDER=sphinx: the same pages by Sphinx alone, without Jupyter Book"
	@echo "make plan [PRESET=quick]         what a build would make again, and why"
	@echo "make fetch-results [FROM=folder|address] [PRESET=paper]  take over what others ran from these sources;"
	@echo "                                 without FROM: from the published book"
	@echo "make diff A=build B=build        what differs between two builds (folders, archives, commits): numbers, verdicts, figures"
	@echo "make report [PRESET=quick]       machine, versions, times, differences to the record, ready to paste;"
	@echo "                                 FROM=report.json enters one in the ledger of machines"
	@echo "make test                        lint, types, and all tests"
	@echo "make setup-tests                 what the tests need beside the book; make test does it by itself"
	@echo "make test-launch                 a chapter opened from elsewhere, as on Colab; downloads the library's packages"
	@echo "make mutants [ONLY=pattern]      plant faults and see that the tests notice (a quarter of an hour)"
	@echo "make faults [ONLY=pattern]       bad arguments, damaged files, kills: what comes (five minutes)"
	@echo "make chapter NAME=analog [PRESET=quick|paper|full] [SEED=3] [parameter=value ...]"
	@echo "                                 run one chapter with your own parameters"
	@echo "make claim ID=A13 [PRESET=quick] run what one claim needs, and show what was found"
	@echo "make seeds [NAME=analog] [SEEDS=8] [PRESET=quick]  run chapters with several seeds; a ledger of what held"
	@echo "make serve [PRESET=quick] [PORT=8000]  show the built book at http://127.0.0.1:8000/"
	@echo "make pdf [PRESET=quick]          the built book as one PDF; needs Chromium or Chrome"
	@echo "make bench                       side-by-side benchmarks"
	@echo "make soak [BUILDS=100]           small builds in a row, edits between, killed at random: what is lost (ten minutes)"
	@echo "make test-pages [PRESET=quick]   page tests on the built book"
	@echo "make accept-verdicts [PRESET=quick]  put the verdicts and numbers on record"
	@echo "make redraw                      draw the kept figures again from their arrays, after an edit of how they look"
	@echo "make lock [UPGRADE=1] [NEWEST=1] resolve the dependencies in pyproject.toml again, to the newest versions;"
	@echo "                                 NEWEST=1: for this Python alone, past the caps that newest.txt lifts"
	@echo "make clean                       delete everything built (the environment in .venv stays)"

# Where Python may write no bytecode, every process would compile all that it imports
COMPILED := $(if $(PYTHONDONTWRITEBYTECODE),--compile-bytecode)

setup:
	@if ! test -x $(PY) || ! cmp -s requirements.lock $(VENV)/requirements.lock; then \
	  set -e; \
	  test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, and none was found (or set PYTHON=...)" >&2; exit 1; }; \
	  test -x $(PY) && $(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV); \
	  awk '/^[^ #]/ { wanted = /^uv==/ } wanted' requirements.lock > $(VENV)/uv.txt; \
	  $(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.txt; \
	  tools=$$(test ! -x $(VENV)/bin/pytest || ls tests/requirements.lock); \
	  rm -f $(VENV)/tests.lock; \
	  $(UV) pip sync --quiet --python $(PY) $(COMPILED) --require-hashes requirements.lock $$tools; \
	  $(PY) -c 'import os, sysconfig; open(sysconfig.get_path("purelib") + "/book.pth", "w").write("\n".join(map(os.path.abspath, ("lib", "notebooks"))))'; \
	  test -z "$$tools" || cp $$tools $(VENV)/tests.lock; \
	  cp requirements.lock $(VENV)/requirements.lock; \
	fi

# What the tests need on top; the book needs none of it, and leaves it where it is
setup-tests: setup
	@cmp -s tests/requirements.lock $(VENV)/tests.lock || { set -e; \
	  $(UV) pip install --quiet --python $(PY) $(COMPILED) --require-hashes -r tests/requirements.lock; \
	  cp tests/requirements.lock $(VENV)/tests.lock; }

known-settings:
	@:$(if $(strip $(TYPED)),$(error unknown: $(TYPED); allowed are PRESET, BUILDER and PYTHON (chapters take parameters: make chapter)))

book: known-settings setup ## the book
	@$(JOB) build --preset "$$PRESET"

plan: setup ## what a build would make again
	@$(JOB) plan --preset "$$PRESET"

chapter: setup ## one chapter with the reader's own parameters
	@test -n "$$NAME" || { echo "NAME is needed: make chapter NAME=analog; chapters: $(sort $(patsubst notebooks/%.py,%,$(wildcard notebooks/*.py)) $(patsubst notebooks/%/chapter.py,%,$(wildcard notebooks/*/chapter.py)))" >&2; exit 1; }
	@$(JOB) chapter --preset "$$PRESET" --typed "$$NAME"

seeds: setup ## chapters with several seeds
	@$(JOB) seeds --preset "$$PRESET" --name "$$NAME" --seeds "$$SEEDS"

claim: setup ## what one claim needs, and what was found
	@test -n "$$ID" || { echo "ID is needed: make claim ID=A13; claims: book/claims.yml" >&2; exit 1; }
	@$(JOB) claim --preset "$$PRESET" -- "$$ID"

fetch-results: setup ## results of others, by digest
	@$(JOB) fetch-results --preset "$$PRESET" -- "$$FROM"

diff: setup ## two builds held against each other
	@$(JOB) diff -- "$$A" "$$B"

report: setup ## what a reviewer sends, or FROM it into the ledger of machines
	@$(JOB) report --preset "$$PRESET" -- "$$FROM"

# Types by the stubs of one NumPy: by those of 2.5, from Python 3.12 on, mypy takes a.max() to lack an argument
# One process more than there are cores: some tests wait for a browser, a cluster, a build
test: setup-tests ## lint, types, tests
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(PY) -c 'import sys; sys.exit(sys.version_info >= (3, 12))' || { echo "types: checked on Python 3.11 alone"; exit 0; }; $(VENV)/bin/mypy
	@$(PY) -m pytest -n $$($(PY) -c 'import os; print(os.cpu_count() + 1)') tests --ignore tests/launch -m "not weekly"

test-launch: setup-tests ## the tree that Binder and Colab open, in a bare environment
	@$(PY) -m pytest tests/launch

mutants: setup-tests ## faults that the tests have to notice
	@$(PY) tests/mutants/run.py --jobs 2 $(if $(ONLY),--only "$$ONLY")

faults: setup-tests ## bad arguments, damaged files, kills
	@$(PY) tests/faults/run.py --jobs 2 $(if $(ONLY),--only "$$ONLY")

soak: setup-tests ## many small builds, killed at random
	@$(PY) tests/faults/soak.py --builds "$$BUILDS"

test-pages: setup-tests ## page tests on the built book
	@$(PY) -m pytest tests/pages --book "_build/$$PRESET/html"

serve: setup ## look at the built book
	@$(JOB) serve --preset "$$PRESET" --port "$$PORT"

pdf: setup ## the built book in one file
	@$(JOB) pdf --preset "$$PRESET"

bench: setup ## benchmarks, with the other packages in an environment of their own
	@cat requirements.lock benchmarks/requirements.lock | cmp -s - $(BENCH)/requirements.lock || { set -e; \
	  $(PY) -m venv --clear $(BENCH); \
	  $(UV) pip install --quiet --python $(BENCH)/bin/python --require-hashes -r requirements.lock -r benchmarks/requirements.lock; \
	  cat requirements.lock benchmarks/requirements.lock > $(BENCH)/requirements.lock; }
	@for file in benchmarks/[!_]*.py; do echo "$$file"; PYTHONPATH=lib $(BENCH)/bin/python "$$file" || exit 1; done

accept-verdicts: setup ## record the scoreboard's verdicts
	@$(JOB) accept-verdicts --preset "$$PRESET"

redraw: setup ## the kept figures again, from their arrays
	@$(JOB) redraw

# Each Python gets the newest versions that run on it. NEWEST=1, in the weekly job: this Python alone, no caps
COMPILE = env -u PIP_FIND_LINKS $(UV) pip compile --quiet --generate-hashes --universal $(if $(UPGRADE),--upgrade) \
  $(if $(NEWEST),--overrides newest.txt --python $(PY),--python-version 3.11 --fork-strategy requires-python) \
  --no-header --no-emit-index-url --no-emit-find-links

lock: ## resolve pyproject.toml into locks and environment.yml; UPGRADE=1 for the newest versions
	@test -x $(UV) || $(MAKE) setup
	@$(COMPILE) --extra chapters --extra book --output-file requirements.lock pyproject.toml
	@$(COMPILE) --group tests --constraints requirements.lock --output-file tests/requirements.lock
	@$(if $(NEWEST),,$(COMPILE) --no-annotate --constraints requirements.lock --output-file benchmarks/requirements.lock benchmarks/requirements.in)
	@$(PY) -m companion.pipeline.environment

dag: setup ## picture of the pipeline's jobs, as Graphviz text
	@$(PY) -m snakemake --profile profiles/default --dag --forceall

clean: ## delete what was built
	rm -rf _build .snakemake
