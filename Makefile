# The front door. `make demo` and `make test` do everything, set-up included; docs/architecture.md has the map behind it.
#
#   PYTHON=…   the interpreter to build for: 3.11 with headers and venv
#   ORACLE=1   install PyTorch 2.13 beside us and compare with it
#   SEEDS=…    folder with PyTorch's test files for the conformance run
SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3)
SEEDS ?= ../shared/seeds
ORACLE ?=
BUILD ?= build
JOBS ?= 2

VENV := .venv
PY := $(CURDIR)/$(VENV)/bin/python
TOOLS := PATH=$(CURDIR)/$(VENV)/bin:$$PATH
RUN := PYTHONPATH=$(CURDIR)/$(BUILD)/python $(PY)
ORACLE_PY := $(CURDIR)/.venv-oracle/bin/python
PYTEST := $(RUN) -m pytest -q -p no:cacheprovider

.PHONY: all build setup demo docs test test-all test-c test-cc test-ops test-ops-share test-programs-share test-python bench bench-gemm check check-ops \
        asan fuzz fuzz-ops fuzz-programs fuzz-captures fuzz-sym fuzz-binding conformance format install clean

all: build

# ---- set-up ------------------------------------------------------------------------------------------------
$(VENV)/ready: requirements/build.txt requirements/test.txt tools/setup
	tools/setup $(PYTHON) $(VENV) requirements/build.txt requirements/test.txt
	touch $@

.venv-oracle/ready: requirements/oracle.txt tools/setup
	tools/setup $(PYTHON) .venv-oracle requirements/oracle.txt
	touch $@

oracle := $(if $(ORACLE),.venv-oracle/ready)
export TAPER_ORACLE := $(if $(ORACLE),$(ORACLE_PY))

setup: $(VENV)/ready $(oracle)

$(BUILD)/build.ninja: $(VENV)/ready
	$(TOOLS) meson setup $(BUILD) $(MESON_ARGS)

build: $(BUILD)/build.ninja
	$(TOOLS) ninja -C $(BUILD) -j $(JOBS)

# The C tests, one program; whoever only uses what is built does not wait for them.
$(BUILD)/src/taper-test: build
	$(TOOLS) ninja -C $(BUILD) -j $(JOBS) src/taper-test

# ---- using -------------------------------------------------------------------------------------------------
demo: build $(oracle)
	$(RUN) examples/tour.py

# ---- tests -------------------------------------------------------------------------------------------------
test: build check test-c test-python conformance $(if $(ORACLE),test-ops-share test-programs-share)

test-c: build $(BUILD)/src/taper-test
	$(TOOLS) meson test -C $(BUILD) --no-rebuild --suite c --suite sweep --print-errorlogs

test-python: build $(oracle)
	$(PYTEST) tests

conformance: build
	$(RUN) tests/conformance/run.py --python $(PY) --seeds $(SEEDS)

# PyTorch's own op_db samples through our public names: all of them, or the seeded tenth that `make test ORACLE=1` takes.
OP_DB := $(RUN) tests/opdb/run.py --oracle $(ORACLE_PY)
test-ops: build .venv-oracle/ready
	$(OP_DB) --report

test-ops-share: build .venv-oracle/ready
	$(OP_DB) --share 0.1

# A seeded share of the random programs, in seconds.
test-programs-share: build .venv-oracle/ready
	$(MAKE) fuzz-programs PROGRAMS=60

# Everything that the C writer accepts of the op table, of modules and of random programs, compiled and compared with eager calls.
CC_PROGRAMS ?= 2000
test-cc: build
	$(RUN) -m taper tests/cc/run.py --programs $(CC_PROGRAMS) --seed $(FIRST)
	if command -v clang > /dev/null; then $(RUN) -m taper tests/cc/run.py --share 0.2 --programs $(CC_PROGRAMS) --seed $(FIRST) --compiler clang; fi

# Everything, for hours: sanitizers, fuzzers, sweeps over Python, all of the above against PyTorch.
test-all:
	$(MAKE) test ORACLE=1
	$(MAKE) test-ops
	$(MAKE) test-cc
	TAPER_SWEEP=1 $(PYTEST) tests/python/test_compile_outside_objects.py
	$(MAKE) asan
	$(MAKE) fuzz SECONDS_EACH=600
	$(MAKE) fuzz-programs fuzz-captures fuzz-ops
	$(MAKE) fuzz-sym CASES=20000
	$(MAKE) fuzz-binding BUDGET=600

# How much of PyTorch's ops and names is here, what is missing by name; which samples are run at sizes other than they were traced at.
check-ops: build $(BUILD)/src/taper-test
	$(RUN) -m taper tools/check_ops.py
	TAPER_TEST_CHECK="recorded elsewhere" TAPER_TEST_FIXED=1 $(BUILD)/src/taper-test trace/table_test.c | sed -n 's/^# //p' | grep rows

OPGEN := cd tools && $(PY) -m opgen --prims ../src/tile/prims.def --root ..
docs: $(VENV)/ready
	$(OPGEN) --docs ../docs/ops.md ../src/ops/*.op

check: build
	$(PY) tools/check.py --build $(BUILD)
	$(OPGEN) --docs $(CURDIR)/$(BUILD)/ops.md ../src/ops/*.op
	cmp docs/ops.md $(BUILD)/ops.md || { echo "docs/ops.md is not what the entries say: make docs"; exit 1; }

# ASan and UBSan over all tests, failing allocations and leaks included. Frame pointers make stacks cheap.
asan: $(VENV)/ready
	[ -f build-asan/build.ninja ] || $(TOOLS) meson setup build-asan -Db_sanitize=address,undefined -Db_lundef=false \
	    -Dbuildtype=debugoptimized -Doptimization=1 -Db_ndebug=false -Dc_args=-fno-omit-frame-pointer
	$(TOOLS) ninja -C build-asan -j $(JOBS)
	$(TOOLS) ninja -C build-asan -j $(JOBS) src/taper-test
	$(TOOLS) tools/asan build-asan $(PY) $(SEEDS) $(JOBS)

SECONDS_EACH ?= 20
fuzz: build
	$(TOOLS) ninja -C $(BUILD) -j $(JOBS) fuzz
	$(PY) tools/fuzz.py --build $(BUILD) --seconds $(SECONDS_EACH)
	$(MAKE) fuzz-captures PROGRAMS=200
	$(if $(ORACLE),$(MAKE) fuzz-programs PROGRAMS=300)

# Random programs, forward and backward: on PyTorch and here, then through every capture and plain.
PROGRAMS ?= 2000
FIRST ?= 0
fuzz-programs: build .venv-oracle/ready
	$(ORACLE_PY) tests/programs/grown/write.py $(FIRST) $(PROGRAMS) $(BUILD)/grown.pt
	$(RUN) -m taper tests/programs/grown/compare.py $(BUILD)/grown.pt

fuzz-captures: build
	$(RUN) -m taper tests/programs/grown/ways.py $(FIRST) $(PROGRAMS)

# Every overload with hostile arguments, in children: no signal, nothing endless, no view beyond its memory. SEED: other calls;
# `python tests/hostile/run.py 1 --seed … --one NUMBER` makes one of them again.
CALLS ?= 100000
SEED ?= 0
fuzz-ops: build
	$(RUN) tests/hostile/run.py $(CALLS) --first $(FIRST) --seed $(SEED) --jobs $(JOBS)

# Random symbolic expressions: what Taper claims of them, refuted or not by Z3.
CASES ?= 3000
fuzz-sym: build .venv-oracle/ready
	TAPER_ORACLE=$(ORACLE_PY) TAPER_SYM_CASES=$(CASES) TAPER_SYM_FIRST=$(FIRST) $(PYTEST) tests/sym

# Everything in the extension, called with hostile arguments in children. BUDGET: how many for each function, method and way to ask an object.
BUDGET ?= 200
fuzz-binding: build
	$(RUN) tests/binding/sweep.py --budget $(BUDGET) --jobs $(JOBS)
	$(RUN) tests/binding/sweep.py --budget $(BUDGET) --jobs $(JOBS) --python --share 0.2

$(BUILD)/bench-guards: bench/guards.c build
	cc -std=gnu17 -O2 -Isrc $< -o $@ -L$(BUILD)/src -ltaper -Wl,-rpath,$(CURDIR)/$(BUILD)/src

bench: build .venv-oracle/ready $(BUILD)/bench-guards
	$(RUN) bench/bench.py --torch $(ORACLE_PY)
	$(BUILD)/bench-guards

# Our products of matrices beside LIBXSMM's and oneDNN's.
RIVALS := .venv-gemm
$(RIVALS)/ready: requirements/gemm.txt tools/gemm_rivals tools/setup
	tools/gemm_rivals $(PYTHON) $(RIVALS)
	touch $@

$(BUILD)/bench-gemm: bench/gemm.c $(RIVALS)/ready build
	cc -std=gnu17 -O2 -fopenmp -Isrc -isystem $(RIVALS)/include $< -o $@ -L$(BUILD)/src -ltaper -Wl,-rpath,$(CURDIR)/$(BUILD)/src \
	    -L$(RIVALS)/lib -Wl,-rpath,$(CURDIR)/$(RIVALS)/lib $$(ls $(RIVALS)/lib/libdnnl.so 2>/dev/null) \
	    $$(ls {$(RIVALS),/usr}/lib/libxsmm{,noblas}.a 2>/dev/null) -lm -ldl -lpthread

bench-gemm: $(BUILD)/bench-gemm
	$(PY) bench/gemm.py $(BUILD)/bench-gemm

format: $(VENV)/ready
	$(VENV)/bin/pip install -q -r requirements/format.txt
	git ls-files '*.c' '*.h' | xargs $(VENV)/bin/clang-format -i

install: $(VENV)/ready
	$(PYTHON) -m pip install .

clean:
	rm -rf build build-asan
