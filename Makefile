# make demo: set everything up in .venv and run the quick start.    make test: set everything up and run every check.
# make test-slow: tests that take long: a disk that is full, what a bench of memory measures, nights that are killed ten times, the installation of cluster/Dockerfile.
# make test-ray: the tests that start Ray clusters of several machines on this one; make test-ray-slow: the longest of them.
# make test-gpu: on a machine with a GPU: kernels, batches, steps and embeddings beside the CPU, then bench train on a graph of
#                ogbn-arxiv's size; all of it is in gpu-report.txt, the one file to send back.
# make test-docs: the tutorial, the blocks of the README and docs that take long, and the site.
# make docs: the site of docs/ in build/site, strictly: a warning is an error. make reference: docs/reference from the code.
# make check: format, lint, types and the order of the layers. make data-test: tests on the real graphs in GSCL_DATA. make clean: removes .venv, runs/ and what other targets made.
# make dist: wheel and sdist in dist/. make test-dist: installs the wheel in an empty environment, without constraints.txt, and runs it.
# make test-lowest: the tests with the lowest versions that pyproject.toml allows (lowest.txt); make test-newest: with the newest.
# make chaos: the fault campaign, CHAOS_FAULTS=220 of them, drawn by CHAOS_SEED=1; CHAOS_PAGE=1 writes docs/figures/faults.md.
# make fuzz: 20,000 mutated inputs over all readers, and docs/figures/fuzz.md; SEED=7 for others.
# make licences: docs/licences.md from what is installed. make audit: pins, withdrawn versions, known vulnerabilities.
# make golden: tests/golden/golden.json anew, after a change of behavior that is meant; prints what changed.
# make results: docs/results.md and the pages of its tables, from the cells in docs/results.
# make test-torch-sparse: compiles that extra (about 10 minutes) and holds all backends of the product to equal results.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
RUN    ?= runs/demo
SEED   ?= 0
# Python compiles a module where it is first imported: to compile all of them takes a minute, and most are never used
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile
# what the base install is tested with, and by, in test-lowest and test-newest
TEST_TOOLS := pytest pytest-timeout pytest-xdist hypothesis networkx
BASE_TESTS := tests/batches tests/embed tests/evaluate tests/model tests/rings tests/train tests/test_estimator.py tests/test_examples.py tests/test_fit.py
LOWEST_TORCH ?= $(shell grep '^torch==' lowest.txt)
TORCH  ?= $(shell grep '^torch==' constraints.txt)

.PHONY: demo no-egg-info test test-slow test-docs test-gpu test-ray test-ray-slow chaos fuzz golden licences audit test-torch-sparse results check data-test docs reference dist test-dist test-lowest test-newest install install-dev clean

demo: $(VENV)/.installed
	@$(BIN)/gscl-scale demo --run $(RUN)

# a build leaves it: in this folder its version stands before that of the installation, and clusters refuse two versions
no-egg-info:
	@rm -rf gscl_scale.egg-info

test: $(VENV)/.installed-dev check no-egg-info
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist worksteal
	@echo "all checks passed"

# two files at a time, since clusters wait now and then; a test beside another takes up to twice its time
RAY_TESTS := OMP_NUM_THREADS=1 $(BIN)/pytest -vv -n 2 --dist loadfile -o timeout=600

test-ray: $(VENV)/.installed-dev no-egg-info
	$(RAY_TESTS) -m "ray and not slow" tests/ray

test-ray-slow: $(VENV)/.installed-dev no-egg-info
	$(RAY_TESTS) -m "ray and slow" tests/ray

GPU_BENCH := --device cuda --steps 14 --set graph.source=synthetic --set graph.preset=large --set graph.num_nodes=169343 \
	--set graph.mean_degree=13.7 --set graph.num_features=128 --set rings.rounds=2 --set model.layers=3 --set model.feature_dropout=0 --set train.batch_size=4096

test-gpu: $(VENV)/.installed-dev
	@code=0; { $(BIN)/gscl-scale doctor; $(BIN)/pip list; nvidia-smi; } > gpu-report.txt 2>&1; \
	$(BIN)/pytest -vv -m gpu tests >> gpu-report.txt 2>&1 || code=1; \
	$(BIN)/gscl-scale bench train $(GPU_BENCH) >> gpu-report.txt 2>&1 || code=1; \
	cat gpu-report.txt; echo "gpu-report.txt has all of this: send back that file"; exit $$code

fuzz: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.hostile.campaign --inputs 20000 --seed $(SEED) --page docs/figures/fuzz.md

golden: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.golden.write

licences: $(VENV)/.installed-dev
	$(BIN)/python .ci/licences

audit: $(VENV)/.installed-dev
	$(BIN)/python .ci/audit

# one process more than there are cores: the test of the image waits for its packages
test-slow: $(VENV)/.installed-dev no-egg-info
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist loadfile --no-loadscope-reorder -m "slow and not ray" --ignore tests/docs

test-docs: $(VENV)/.installed-docs
	OMP_NUM_THREADS=1 $(BIN)/pytest -vv -n 2 -m "slow and not ray" tests/docs

docs: $(VENV)/.installed-docs
	$(BIN)/python -m tools.reference --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

reference: $(VENV)/.installed
	$(BIN)/python -m tools.reference

dist: $(VENV)/.installed-dev
	rm -rf dist
	$(BIN)/python -m build --outdir dist . > /dev/null
	rm -rf gscl_scale.egg-info  # its version would stand before that of the installation
	@ls -l dist

test-dist:
	$(PYTHON) .ci/wheel dist/*.whl --torch $(TORCH)

# in an environment of its own; torch comes first, as above, and LOWEST_TORCH is another where no CPU build is offered
test-lowest test-newest: test-%:
	$(PYTHON) -m venv --clear $(VENV)-$*
	grep -v '^torch==' $(if $(filter lowest,$*),lowest.txt,/dev/null) > $(VENV)-$*/pins.txt || true
	$(VENV)-$*/bin/python $(INSTALL) $(if $(filter lowest,$*),$(LOWEST_TORCH),torch)
	$(VENV)-$*/bin/python $(INSTALL) -c $(VENV)-$*/pins.txt -e . $(TEST_TOOLS)
	OMP_NUM_THREADS=1 $(VENV)-$*/bin/pytest -n auto -o filterwarnings=default $(BASE_TESTS)

chaos: $(VENV)/.installed-dev no-egg-info
	$(BIN)/pytest -s -m chaos tests/chaos

test-torch-sparse: $(VENV)/.installed-dev
	$(BIN)/python $(INSTALL) setuptools wheel
	$(BIN)/python $(INSTALL) --no-build-isolation -c constraints.txt -e ".[torch-sparse]"
	OMP_NUM_THREADS=1 $(BIN)/pytest -m torch_sparse

# The page of results from the cells that are kept; nothing is measured. docs/results/tables: a table a line, and its seeds.
results: $(VENV)/.installed
	@rm -f docs/results/*.md docs/results/*.json
	@for table in $$(cut -d' ' -f1 docs/results/tables); do \
		GSCL_DATA=$${GSCL_DATA:-.} $(BIN)/gscl-scale reproduce $$table --page --out docs/results > /dev/null || exit 1; \
	done
	@sed 's#](\([a-z_]*\.\(png\|md\)\)#](results/\1#g; s#](\.\./#](#g' docs/results/results.md > docs/results.md

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

data-test: $(VENV)/.installed-dev
	@test -n "$(GSCL_DATA)" || { echo "set GSCL_DATA to the folder of the real graphs"; exit 2; }
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto -m data

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "gscl-scale needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

# torch comes first and pinned: where a CPU build is offered to pip it is taken, and no later requirement moves it
$(VENV)/.installed: $(VENV)/.python pyproject.toml constraints.txt
	$(BIN)/python $(INSTALL) -c constraints.txt torch
	$(BIN)/python $(INSTALL) -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python $(INSTALL) -c constraints.txt -e ".[dev]"
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed-dev
	$(BIN)/python $(INSTALL) -c constraints.txt -e ".[docs]"
	@touch $@

clean:
	rm -rf $(VENV) runs bench-results gpu-report.txt fuzz-failures build dist *.egg-info
