PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 2

.PHONY: install demo test bench bench-gpu lint format clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	@echo "installing macrid into $(VENV); torch is large, this takes a while"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: install
	$(BIN)/macrid demo $(ARGS)

test: install
	$(BIN)/pytest -n $(JOBS) --dist loadfile -m "not alone" --cov --cov-report= $(ARGS) || [ $$? -eq 5 ]
	$(BIN)/pytest -m alone --cov --cov-append --cov-report=term --cov-fail-under=90 $(ARGS) || [ $$? -eq 5 ]

bench: install
	$(BIN)/python benchmarks/speed.py $(ARGS)
	$(BIN)/python benchmarks/accuracy.py
	$(BIN)/python benchmarks/report.py

bench-gpu: install
	$(BIN)/python benchmarks/speed.py --device cuda $(ARGS)
	$(BIN)/python benchmarks/accuracy.py --device cuda
	$(BIN)/python benchmarks/report.py

lint: install
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install
	$(BIN)/ruff check --fix src tests benchmarks
	$(BIN)/ruff format src tests benchmarks

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .coverage
