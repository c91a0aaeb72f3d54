# make setup | setup-dev | web | wheels | openapi | demo | test | test-changed | test-all | nightly | seed | seeded | check | perf | mutants | mutants-changed | fuzz | fuzz-short | fuzz-kernel | soak | audit | site | picture | pictures | tour | new-adapter | new-output | new-service | new-vehicle | clean
.POSIX:
.SUFFIXES:
.PHONY: setup setup-dev web wheels openapi setup-tests foreign demo test test-changed test-all lint check checks queue alone mypy pyright \
    commits page-check pytest without-kernel seeded seeded-prescott seeded-haswell nightly seed perf mutants mutants-changed fuzz fuzz-short fuzz-kernel sanitized-kernel \
    kernel-against-twin tracks-against-twin soak audit site picture pictures tour new-adapter new-output new-service new-vehicle clean

# Hundreds of processes import the same modules; an environment that forbids keeping them compiled costs minutes.
unexport PYTHONDONTWRITEBYTECODE

VENV = .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed
DEV = $(VENV)/.installed-dev
PROGRAMS = $(VENV)/.programs
KERNELS = $(VENV)/.kernels
COMPILED_TESTS = $(VENV)/.compiled-tests
MUTANTS = $(VENV)/.mutants
# Two installations at a time break the environment; the scripts hold the same lock.
LOCKED = flock scripts/packages.sh
WEB = vil_bridge/web/frontend

# Length of the demonstration (0: until Ctrl-C) and where its summary goes.
SECONDS = 30
JSON = out/demo/summary.json
FUZZ_RUNS = 1000000
FUZZ_SECONDS = 4
KERNEL_RUNS = 10000000
KERNEL_FRAMES = 1000000
# Where a branch left: test-changed and mutants-changed take what it changed since.
BASE = origin/main

# What the demonstration needs.
setup: $(STAMP)

# And what checks and tests need, with nearly all extras.
setup-dev: $(DEV)

KERNEL = vil_bridge/kernel

$(STAMP): requirements-demo.lock pyproject.toml hatch_build.py scripts/setup.sh \
    $(KERNEL)/algebra.h $(KERNEL)/clock.c $(KERNEL)/clock.h $(KERNEL)/error_state.c $(KERNEL)/frame_store.c $(KERNEL)/layout.c \
    $(KERNEL)/natnet.c $(KERNEL)/natnet.h $(KERNEL)/natnet_stream.c $(KERNEL)/natnet_stream.h \
    $(KERNEL)/numbers.c $(KERNEL)/numbers.h $(KERNEL)/poses.h $(KERNEL)/rays.c $(KERNEL)/skeletons.c \
    $(KERNEL)/tracks.c $(KERNEL)/tracks.h $(KERNEL)/twist_filter.c $(KERNEL)/version.c $(KERNEL)/vicon.c $(KERNEL)/vicon.h \
    $(KERNEL)/vicon_objects.c $(KERNEL)/vicon_objects.h $(KERNEL)/vrpn.c $(KERNEL)/vrpn.h
	sh scripts/setup.sh $(VENV)
	touch $(STAMP)

$(DEV): requirements.lock | $(STAMP)
	$(LOCKED) $(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
	touch $(DEV)

web:
	sh scripts/web.sh

# The bridge with its compiled kernel and in pure Python, and the onboard client, in dist.
wheels: setup
	sh scripts/wheels.sh dist

# The description of the REST interface; a test compares it with the code's.
openapi: setup
	$(BIN)/python scripts/openapi.py

# All that the tests need.
setup-tests:
	$(MAKE) -j3 foreign

# What the tests need besides: other people's programs, the vehicles' kernels, and the tests themselves, compiled once and not
# in each worker. With -j the programs are installed while pip works.
foreign: $(PROGRAMS) $(KERNELS) $(COMPILED_TESTS)

$(PROGRAMS): scripts/foreign.sh scripts/airsim_client.sh scripts/betaflight.sh | $(STAMP)
	sh scripts/foreign.sh
	touch $(PROGRAMS)

$(KERNELS): scripts/kernels.py | $(DEV)
	$(BIN)/python scripts/kernels.py
	touch $(KERNELS)

$(COMPILED_TESTS): | $(DEV)
	-$(BIN)/pytest -q --collect-only > /dev/null
	touch $(COMPILED_TESTS)

demo: setup
	$(BIN)/vil-bridge demo --seconds $(SECONDS) --json $(JSON)

lint: setup-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

# The longest first: the others run while mypy does.
CHECKS = mypy pyright lint commits page-check

check: setup-dev
	$(MAKE) -j2 --output-sync=target $(CHECKS)

mypy: setup-dev
	$(BIN)/mypy
	$(BIN)/mypy tests

pyright: setup-dev
	$(BIN)/pyright

commits: setup
	$(BIN)/python scripts/commit_subjects.py

page-check: setup
	if [ -e $(WEB)/node_modules ]; then cd $(WEB) && npm run --silent check; fi

# Minutes. The output of each part comes in one piece.
test: setup-tests
	$(MAKE) -j2 --output-sync=target lint pytest

# The test files that the differences of the working tree from BASE can reach (CONTRIBUTING.md).
test-changed: setup-dev foreign
	$(BIN)/python -m tests.changed run $(BASE)

# All of `make test`, the types, the page's check, what works without the compiled kernel, and the long cases. Those that
# want the machine for themselves come last.
test-all: setup-tests
	$(MAKE) -j2 --output-sync=target checks
	$(MAKE) queue
	$(MAKE) alone

# What only computes, the longest first.
checks: $(CHECKS) without-kernel seeded

queue: setup-dev foreign
	$(PYTEST) -n 5 -m "not alone"

alone: setup-dev foreign
	$(BIN)/pytest -q -m alone $(ALONE)

ALONE = tests/e2e/test_demo.py tests/e2e/test_late_warp_flight.py tests/e2e/test_vio_loop.py \
    tests/e2e/test_autopilots_betaflight.py tests/e2e/test_betaflight_program.py \
    tests/e2e/test_race_three_racers.py

# One queue for five workers, two of which stand back and take what only computes (tests/layers.py). The order is that of
# tests/layers.py, since xdist's own would leave the files with one long case each for the end. Threads of OpenBLAS would only spin.
PYTEST = OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -q --dist loadfile --no-loadscope-reorder --durations 20

pytest: setup-dev foreign
	$(PYTEST) -n 5 -m "not long"

# What runs once more without the compiled kernel, in one process: the types are checked by another. Simulations have none.
WITHOUT_KERNEL = tests/unit/world tests/unit/adapters \
    tests/unit/tools/test_doctor_checks.py tests/unit/daemon/test_realtime.py \
    --ignore-glob='*/adapters/test_simulated_*' --ignore-glob='*/adapters/test_autopilot_*'

without-kernel: setup-dev foreign
	VIL_KERNEL=off $(PYTEST) -n 0 -m "not long" $(WITHOUT_KERNEL)

# What seeds promise, with the matrix kernels of other processors than this one (docs/decisions/0017-one-order-of-sums.md).
SEEDED = tests/unit/core/test_elementary.py tests/unit/tools/test_simulated_race.py tests/unit/vehicles/test_vehicles_noise.py

seeded: seeded-prescott seeded-haswell

seeded-prescott: setup-dev
	OPENBLAS_CORETYPE=Prescott NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4" $(PYTEST) -n 0 -m seeded $(SEEDED)

seeded-haswell: setup-dev
	if grep -q avx2 /proc/cpuinfo; then OPENBLAS_CORETYPE=Haswell $(PYTEST) -n 0 -m seeded $(SEEDED); fi

# Hours: a thousand virtual worlds, properties with 500 examples, fuzzing, a hundred rounds of each attack, and mutants of every
# room.
nightly: setup-dev foreign
	$(BIN)/python -m tests.virtual.nightly $(NIGHTLY_FLAGS)
	$(MAKE) without-kernel
	$(PYTEST) -n 2 --hypothesis-profile deep -m hypothesis
	$(MAKE) fuzz-short FUZZ_SECONDS=120
	$(MAKE) fuzz-kernel
	$(BIN)/python -m tests.attacks.run --rounds 100 --json out/nightly/attacks.json
	$(MAKE) mutants

# Repeats a virtual world of the nightly run: make seed SEED=7
seed: setup-dev
	$(BIN)/python -m tests.virtual.run --seed $(SEED) --trace out/seed-$(SEED).txt

# Benchmarks beside their bars and the previous report; a quarter of an hour, or 95 s with PERF_FLAGS=--quick. Fails nothing.
perf: setup-dev
	$(BIN)/python -m tests.perf.report $(PERF_FLAGS)

# How many changed lines the tests notice, by room (docs/develop/mutants.md); an hour or more.
mutants: $(MUTANTS)
	$(BIN)/python -m tests.mutants.run $(MUTANTS_FLAGS)

# The same of the lines that a branch changes, in five minutes.
mutants-changed: $(MUTANTS)
	$(BIN)/python -m tests.mutants.run --changed $(BASE) --seconds 300

$(MUTANTS): $(DEV)
	$(LOCKED) $(BIN)/pip install -qq --disable-pip-version-check -e ".[mutants]"
	touch $(MUTANTS)

# Every codec that reads foreign bytes; hours for all of it (docs/develop/fuzzing.md).
fuzz: setup-dev
	$(BIN)/python -m tests.fuzz.run all --runs $(FUZZ_RUNS)

# The same inputs each time, so that what CI finds is what has changed.
fuzz-short: setup-dev
	$(BIN)/python -m tests.fuzz.run all --runs $(FUZZ_RUNS) --seconds $(FUZZ_SECONDS) --seed 1 --jobs 2

# The compiled kernel under the sanitizers, and against its twin; half an hour.
fuzz-kernel: setup-dev
	$(MAKE) -j2 --output-sync=target sanitized-kernel kernel-against-twin tracks-against-twin

sanitized-kernel: setup-dev
	$(BIN)/python -m tests.fuzz.sanitized_kernel --runs $(KERNEL_RUNS)

kernel-against-twin: setup-dev
	$(BIN)/python -m tests.fuzz.kernel_against_twin --frames $(KERNEL_FRAMES)

tracks-against-twin: setup-dev
	$(BIN)/python -m tests.fuzz.tracks_against_twin --frames $(KERNEL_FRAMES)

# Three minutes: everything goes wrong, other things each time unless SOAK_FLAGS="--seed N"; then a few rounds of
# each attack, and ten minutes of Betaflight's hover where it can be built. An hour: tests/soak/README.md; a hundred
# rounds: tests/attacks/README.md.
soak: setup-dev
	$(BIN)/python -m tests.soak.hour --seconds 90 --noise --largest-mb 10 --out out/soak $(SOAK_FLAGS)
	$(BIN)/python -m tests.attacks.run --rounds 2 --seconds 1 --json out/soak/attacks.json
	$(BIN)/python -m tests.soak.airsim --seconds $${VIL_SOAK_AIRSIM_S:-60} --largest-mb 100 --out out/soak/airsim
	$(BIN)/python -m tests.soak.autopilots px4 --simulated $${VIL_SOAK_AUTOPILOT_S:-15} --out out/soak/px4 $(SOAK_FLAGS)
	$(BIN)/python -m tests.soak.autopilots ardupilot --simulated $${VIL_SOAK_AUTOPILOT_S:-15} --out out/soak/ardupilot $(SOAK_FLAGS)
	if [ $${VIL_SOAK_BETAFLIGHT_S:-600} != 0 ] && sh scripts/betaflight.sh > /dev/null; then \
	    $(BIN)/python -m tests.soak.betaflight --seconds $${VIL_SOAK_BETAFLIGHT_S:-600} --out out/soak/betaflight; fi

# Published vulnerabilities of the pinned dependencies; says so where the advisories cannot be reached.
audit: setup-dev
	$(BIN)/python scripts/audit.py

# The documentation as a site, in out/site.
site: setup-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# Draws the README's moving picture again; a minute.
picture: setup
	$(BIN)/python scripts/moving_picture.py docs/figures/demo.webp

# Draws the pictures of the pages again, with the demonstration and Chromium; some minutes on an idle computer.
pictures: setup-dev
	$(BIN)/python scripts/pictures.py docs/figures

# Runs docs/start/tour.md and renews its outputs.
tour: setup
	$(BIN)/python scripts/tour.py docs/start/tour.md

# The package of a new source, output, service or vehicle, from examples (CONTRIBUTING.md): make new-output NAME=foo [DIR=path]
new-adapter: setup-dev
	$(BIN)/python scripts/new_package.py adapter $(NAME) $(DIR)

new-output: setup-dev
	$(BIN)/python scripts/new_package.py output $(NAME) $(DIR)

new-service: setup-dev
	$(BIN)/python scripts/new_package.py service $(NAME) $(DIR)

new-vehicle: setup-dev
	$(BIN)/python scripts/new_package.py vehicle $(NAME) $(DIR)

clean:
	rm -rf $(VENV) build dist out $(WEB)/node_modules vil_bridge/web/static
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
