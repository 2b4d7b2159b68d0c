# Everything a fresh machine needs: `make demo`, `make test` and `make docs`.

PYTHON ?= python3
VENV ?= .venv
SOURCE ?= DigitQuarters
K ?= 30
OUT ?= demo/$(SOURCE)
# GNNs that differ on purpose, and a short fit: the demo takes two and a half minutes on two cores.
MODELS ?= MLP,Children,GCN-1,GCN,SAGE-max,GIN,GAT
EPOCHS ?= 12
# Idle threads sleep: a core that others use as well is not spun on.
export OMP_WAIT_POLICY ?= PASSIVE
BIN := $(VENV)/bin
# Output of targets that run side by side is not mixed (GNU make 4 and later).
SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

.PHONY: demo test docs shard-1 shard-2 test-slow test-native mutations scripts lint clean

# torch comes first, pinned, so that no other package picks a build of its own.
$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --requirement constraints.txt
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,report,files,dp,sign,lightning,croissant,notebook]'
	touch $@

# Synthesize a substitute of SOURCE, compare GNNs on both, attack it, leave a page.
demo: $(VENV)/.installed
	rm -rf $(OUT)
	$(BIN)/cgt release --source $(SOURCE) --k $(K) --epochs $(EPOCHS) --zoo --models $(MODELS) --out $(OUT)
	@echo "Open $(OUT)/release.html"

test: $(VENV)/.installed lint
	@echo 'Two processes share the tests. Each prints its output when it ends.'
	@$(MAKE) --no-print-directory --jobs=2 --keep-going $(SYNC) shard-1 shard-2

# Each shard has one core, and a cache of its own: neither waits for the other.
shard-1 shard-2: $(VENV)/.installed
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow and not native" \
	    --shard $(@:shard-%=%)/2 -o cache_dir=.pytest_cache/$@

# The documentation site, in build/docs. Warnings are errors.
docs: $(VENV)/.docs-installed
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs build/docs
	@echo "Open build/docs/index.html"

$(VENV)/.docs-installed: $(VENV)/.installed
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

test-slow: $(VENV)/.installed
	$(BIN)/python -m pytest -m slow

# Plants bugs in private and k-anonymous builds; see docs/results/mutations.md. Takes minutes.
mutations: $(VENV)/.installed
	cd benchmarks && ../$(BIN)/python mutations.py --cells ../mutations.jsonl
	cd benchmarks && ../$(BIN)/python mutations.py --cells ../mutations.jsonl --show

# Runs PyG's example scripts on Cora and on one build of its release; see docs/pyg_scripts.md. A run
# that was stopped goes on; `make scripts ANEW=--anew` builds and measures all of them again.
scripts: $(VENV)/.installed
	$(BIN)/python benchmarks/pyg_scripts.py --cells docs/results/pyg_scripts.jsonl $(ANEW)
	$(BIN)/python benchmarks/pyg_scripts.py --cells docs/results/pyg_scripts.jsonl --show

# torch-scatter and torch-sparse are compiled here, which takes about half an hour.
test-native: $(VENV)/.installed
	$(BIN)/pip install --quiet setuptools wheel ninja
	$(BIN)/pip install --no-build-isolation --constraint constraints.txt --editable '.[sparse]'
	$(BIN)/python -m pytest -m native

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) demo build *.egg-info
