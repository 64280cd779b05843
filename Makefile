# `make demo` and `make test` set up everything they need: see scripts/set_up.py.
PYTHON ?= python3
VENV := .venv/bin

.PHONY: help demo test mutate soak soak-recordings soak-readers sanitize setup lint format docs bench clean

help:
	@echo "make demo    set up, then record a real program on the best device here and show the summary"
	@echo "make test    set up, then run every check and every test; one table at the end"
	@echo "make soak    set up, then kill parts of 300 recordings at random moments, from seeds, and account for every row"
	@echo "make soak-recordings  200 short recordings, 8 at a time (of PyTorch where it has a GPU); the stacks of one that does not end"
	@echo "make mutate  plant 1,000 small faults in the source, one at a time, and count those the tests notice (MUTANTS=, SEED=)"
	@echo "make sanitize  set up, then run the native parts under ASan, UBSan, TSan and valgrind"
	@echo "make lint    the static checks alone"
	@echo "make format  format Python and C++"
	@echo "make docs    renew reference pages and pictures, and build the documentation as a site in build/site"
	@echo "make bench   measure the recorder on this machine"
	@echo "make soak-readers  read 20,000 damaged files: takes an hour (INPUTS=, SEED= choose others)"
	@echo "make clean   remove .venv and what was built"

demo:
	@$(PYTHON) scripts/set_up.py demo
	@$(VENV)/warpsight demo

# The build is one of the suites, so that a failed build still gives a table.
test:
	@$(PYTHON) scripts/set_up.py test --no-build
	@$(VENV)/python scripts/run_suites.py

soak:
	@$(PYTHON) scripts/set_up.py test
	@$(VENV)/python -m tests.faults 300

soak-recordings:
	@$(PYTHON) scripts/set_up.py test
	@$(VENV)/python -m tests.faults.recordings 200 --keep build/soak

sanitize:
	@$(PYTHON) scripts/set_up.py test
	@$(VENV)/python -m tests.sanitize

setup:
	@$(PYTHON) scripts/set_up.py test

lint:
	@$(PYTHON) scripts/set_up.py test --no-system --no-build
	@$(VENV)/python scripts/run_suites.py --only static

format:
	@$(PYTHON) scripts/set_up.py test --no-system --no-build
	$(VENV)/ruff check --fix --quiet . || true
	$(VENV)/ruff format --quiet .
	git ls-files -z '*.cpp' '*.h' '*.c' '*.cu' '*.cuh' | xargs -0 $(VENV)/clang-format -i

docs:
	@$(PYTHON) scripts/set_up.py docs
	@$(VENV)/python scripts/make_docs.py

bench:
	@$(PYTHON) scripts/set_up.py demo
	$(VENV)/warpsight bench

INPUTS ?= 20000
SEED ?= 1
soak-readers:
	@$(PYTHON) scripts/set_up.py test
	$(VENV)/python -m tests.faults.readers --inputs $(INPUTS) --seed $(SEED) --keep build/faults

MUTANTS ?= 1000
mutate:
	@$(PYTHON) scripts/set_up.py test
	$(VENV)/python -m tests.mutation $(MUTANTS) --seed $(SEED)

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
