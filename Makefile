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

.PHONY: all build setup demo test test-all test-c test-python bench check asan fuzz conformance format install clean

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
	$(TOOLS) meson compile -C $(BUILD) -j $(JOBS)

# ---- using -------------------------------------------------------------------------------------------------
demo: build $(oracle)
	$(RUN) examples/tour.py

# ---- tests -------------------------------------------------------------------------------------------------
test: build check test-c test-python conformance

test-c: build
	$(TOOLS) meson test -C $(BUILD) --no-rebuild --suite c --suite sweep --print-errorlogs

test-python: build $(oracle)
	$(PYTEST) tests

conformance: build
	$(RUN) tests/conformance/run.py --python $(PY) --seeds $(SEEDS)

# Everything, for hours: sanitizers, fuzzers, sweeps over Python, all of the above against PyTorch.
test-all:
	$(MAKE) test ORACLE=1
	$(MAKE) asan
	$(MAKE) fuzz SECONDS_EACH=600

check: build
	$(PY) tools/check.py --build $(BUILD)

# ASan and UBSan over C and Python tests, leaks included; asserts are on. Python's own allocator would hide its blocks, and
# its frames, as numpy's, have no frame pointers: tests/lsan.txt needs the slow unwinder, which ten frames make bearable.
# Reports go to the descriptor, so pytest must not take it.
ASAN_ALWAYS := detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1
ASAN_PYTHON := detect_leaks=1:allocator_may_return_null=1:fast_unwind_on_malloc=0:malloc_context_size=10
asan: $(VENV)/ready
	[ -f build-asan/build.ninja ] || $(TOOLS) meson setup build-asan -Db_sanitize=address,undefined -Db_lundef=false \
	    -Dbuildtype=debugoptimized -Doptimization=1 -Db_ndebug=false
	$(TOOLS) meson compile -C build-asan -j $(JOBS)
	ASAN_OPTIONS=$(ASAN_ALWAYS) UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 $(TOOLS) \
	    meson test -C build-asan --no-rebuild --suite c --timeout-multiplier 5 --print-errorlogs
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" PYTHONMALLOC=malloc \
	ASAN_OPTIONS=$(ASAN_PYTHON) UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	LSAN_OPTIONS=suppressions=$(CURDIR)/tests/lsan.txt:print_suppressions=0 \
	PYTHONPATH=$(CURDIR)/build-asan/python $(PY) -m pytest -q -p no:cacheprovider --capture=sys -m "not slow" tests/python

SECONDS_EACH ?= 20
fuzz: build
	$(TOOLS) ninja -C $(BUILD) src/fuzz-schema src/fuzz-expression src/fuzz-json src/fuzz-pickle src/fuzz-zip
	$(PY) tools/fuzz.py --build $(BUILD) --seconds $(SECONDS_EACH)

bench: build .venv-oracle/ready
	$(RUN) bench/bench.py --torch $(ORACLE_PY)

format: $(VENV)/ready
	$(VENV)/bin/pip install -q -r requirements/format.txt
	git ls-files '*.c' '*.h' | xargs $(VENV)/bin/clang-format -i

install: $(VENV)/ready
	$(PYTHON) -m pip install .

clean:
	rm -rf build build-asan
