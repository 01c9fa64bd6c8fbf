PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 3
COVERAGE ?=
MEASURE := $(if $(COVERAGE),--cov --cov-report=)
NODE := $(shell command -v npm >/dev/null && command -v node)
TYPES := types/openapi.d.ts
DESCRIBE = $(BIN)/python -m tests.studio.description | npx openapi-typescript --default-non-nullable=false

define TEST
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "$(1) and not alone" $(MEASURE) $(ARGS) || [ $$? -eq 5 ]
	$(BIN)/pytest -m "$(1) and alone" $(if $(COVERAGE),$(MEASURE) --cov-append) $(ARGS) || [ $$? -eq 5 ]
endef

.PHONY: install demo test test-slow bench bench-gpu lint format types clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	@echo "installing macrid into $(VENV); torch is large, this takes a while"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

node_modules/.installed: package.json package-lock.json
	npm ci --no-audit --no-fund
	@touch $@

demo: install
	$(BIN)/macrid demo $(ARGS)

test: install
	$(call TEST,not slow)
	$(if $(COVERAGE),$(BIN)/coverage report --fail-under=90)
ifdef NODE
	node --test tests/studio/*.test.mjs
else
	@echo "Node is not installed: the studio's modules are tested in the browser only"
endif

test-slow: install
	$(call TEST,slow)

bench: install
	$(BIN)/python -m benchmarks.speed $(ARGS)
	$(BIN)/python -m benchmarks.accuracy
	$(BIN)/python -m benchmarks.report

bench-gpu: install
	$(BIN)/python -m benchmarks.speed --device cuda $(ARGS)
	$(BIN)/python -m benchmarks.accuracy --device cuda
	$(BIN)/python -m benchmarks.report

lint: install $(if $(NODE),node_modules/.installed)
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports
ifdef NODE
	$(DESCRIBE) --check -o $(TYPES) || { echo "$(TYPES) is stale; run make types"; exit 1; }
	npx tsc
else
	@echo "Node is not installed: the studio's types are not checked"
endif

format: install
	$(BIN)/ruff check --fix src tests benchmarks
	$(BIN)/ruff format src tests benchmarks

types: install node_modules/.installed
	$(DESCRIBE) -o $(TYPES)

clean:
	rm -rf $(VENV) node_modules build dist .pytest_cache .mypy_cache .ruff_cache .coverage
