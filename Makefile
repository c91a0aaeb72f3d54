# make setup | web | openapi | demo | test | check | fuzz | fuzz-short | soak | audit | site | tour | clean
.POSIX:
.SUFFIXES:
.PHONY: setup web openapi foreign demo test check pytest fuzz fuzz-short soak audit site tour clean

# Hundreds of processes import the same modules; an environment that forbids keeping them compiled costs minutes.
unexport PYTHONDONTWRITEBYTECODE

VENV = .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed
FOREIGN = $(VENV)/.foreign
WEB = vil_bridge/dashboard/web

# Length of the demonstration (0: until Ctrl-C) and where its summary goes.
SECONDS = 30
JSON = out/demo/summary.json
FUZZ_RUNS = 1000000
FUZZ_SECONDS = 10

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml scripts/setup.sh
	sh scripts/setup.sh $(VENV)
	touch $(STAMP)

web:
	sh scripts/web.sh

# The description of the REST interface; a test compares it with the code's.
openapi: setup
	$(BIN)/python scripts/openapi.py

foreign: $(FOREIGN)

$(FOREIGN): $(STAMP) scripts/foreign.sh
	sh scripts/foreign.sh
	touch $(FOREIGN)

demo: setup
	$(BIN)/vil-bridge demo --seconds $(SECONDS) --json $(JSON)

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy tests
	$(BIN)/pyright
	$(BIN)/lint-imports
	if [ -e $(WEB)/node_modules ]; then cd $(WEB) && npm run --silent check; fi

# Both at once: the tests wait for sockets most of the time. Each one's output comes in one piece.
test: setup
	$(MAKE) -j2 --output-sync=target check pytest

# In the order of the folders: xdist's own would leave the files with one long test each for the end.
pytest: setup foreign
	$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder --durations 30 -m "not alone"
	$(BIN)/pytest -q -m alone

# Every codec that reads foreign bytes; hours for all of it (docs/fuzzing.md).
fuzz: setup
	$(BIN)/python -m tests.fuzz.run all --runs $(FUZZ_RUNS)

# The same inputs each time, so that what CI finds is what has changed.
fuzz-short: setup
	$(BIN)/python -m tests.fuzz.run all --runs $(FUZZ_RUNS) --seconds $(FUZZ_SECONDS) --seed 1 --jobs 2

# Three minutes of everything going wrong, other things each time unless SOAK_FLAGS="--seed N"; an hour:
# tests/soak/README.md.
soak: setup
	$(BIN)/python -m tests.soak.hour --seconds 180 --noise --largest-mb 10 --out out/soak $(SOAK_FLAGS)

# Published vulnerabilities of the pinned dependencies; says so where the advisories cannot be reached.
audit: setup
	$(BIN)/python scripts/audit.py

# The documentation as a site, in out/site.
site: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# Runs docs/tour.md and renews its outputs.
tour: setup
	$(BIN)/python scripts/tour.py docs/tour.md

clean:
	rm -rf $(VENV) build dist out $(WEB)/node_modules vil_bridge/dashboard/static
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
