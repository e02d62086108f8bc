# `make run` and `make test` install what they need; see CONTRIBUTING.md for the rest.
# The first Python that is new enough.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3.14 python3; do \
  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# BLAS threads would compete with the test workers; results do not depend on them.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
# The real data, where a checkout has it beside it.
ifneq ($(wildcard ../shared/data/MANIFEST.json),)
export DEALFL_DATA ?= $(abspath ../shared/data)
endif

# How to become root where that takes no password.
ROOT := $(shell test "$$(id -u)" = 0 || echo sudo -n)

.PHONY: help setup run quick test browser mosquitto podman containers qemu arm64 rabbitmq flower check bench soak mutate docs site pictures lock clean

help:            ## list the targets
	@grep -hE '^[a-z0-9]+: .*##|^[a-z0-9]+:  *##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/'

setup: $(READY)  ## a virtual environment with everything pinned

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: install one, or say make PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(READY): constraints.txt pyproject.toml | $(BIN)/python
	@echo "installing what the tests need into $(VENV): 1.6 GB, some minutes"
	@$(INSTALL) --require-hashes -r constraints.txt
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# What a run needs is a fifth of it; where everything is installed, nothing is missing. Modules are
# compiled when they are first used: all of them would take another 110 MB.
LIGHT  := $(VENV)/.light
$(LIGHT): constraints-run.txt pyproject.toml | $(BIN)/python
	@test -f $(READY) || { \
	  echo "installing what a run needs into $(VENV): 340 MB, a minute or two" && \
	  $(INSTALL) --no-compile --require-hashes -r constraints-run.txt && \
	  $(INSTALL) --no-deps --no-build-isolation --editable .; }
	@touch $@

run: $(LIGHT)    ## the main job: phones learn handwritten digits, forget some, and compare
	@$(BIN)/dealfl run

QUICK := tests/statistics tests/learners tests/features tests/transport tests/server tests/worker \
         tests/selection tests/settings tests/retention
quick: $(READY)  ## the tests of a minute: no system packages, no browser, no broker
	$(BIN)/python -m pytest -n 2 -m "not data and not soak" $(QUICK) \
	  $(foreach name,compiled interrupts wiring claims odd_arrays selectors batches killed failing hostile promises,--ignore-glob='*$(name)*')

# Temporary folders of tests in memory, where there are 4 GB: a test does not wait for a disk.
MEMORY := $(shell test "$$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)" -gt 4000000 2>/dev/null && \
  echo TMPDIR=/dev/shm)

test: $(READY) browser mosquitto  ## all tests, doctests included
	@echo "all tests: about ten minutes on two cores; what is skipped, and why, is stated at the end"
	$(MEMORY) $(BIN)/python -m pytest -n 2 --dist loadfile

browser:         ## chromium, in which the tests open the pages; installed where that is allowed
	@command -v chromium >/dev/null || { \
	  echo "installing the system package chromium, in which the tests open the pages" && { \
	  $(ROOT) apt-get update -qq && \
	  $(ROOT) apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1; } || \
	  echo "NO CHROMIUM, AND IT CANNOT BE INSTALLED HERE: tests of the pages are skipped" >&2

mosquitto:       ## the MQTT broker of the network tests, and hosts for it; installed where that is allowed
	@PATH="$$PATH:/usr/sbin"; { command -v mosquitto && command -v ip && command -v iptables; } \
	  >/dev/null || { echo "installing the system packages mosquitto, iproute2 and iptables for the network tests" && { \
	  $(ROOT) apt-get update -qq && \
	  $(ROOT) apt-get install -y -qq --no-install-recommends mosquitto iproute2 iptables; \
	  } >/dev/null 2>&1; } || \
	  echo "NO MOSQUITTO, AND IT CANNOT BE INSTALLED HERE: tests of the network are skipped" >&2

PODMAN := podman runc netavark aardvark-dns debootstrap
podman:          ## what `make containers` needs; installed where that is allowed
	@PATH="$$PATH:/usr/sbin"; { command -v podman && command -v runc && command -v debootstrap && \
	  test -x /usr/lib/podman/netavark; } >/dev/null || { \
	  echo "installing the system packages $(PODMAN)" && { \
	  $(ROOT) apt-get update -qq && \
	  $(ROOT) apt-get install -y -qq --no-install-recommends $(PODMAN); } >/dev/null 2>&1; } || \
	  echo "NO PODMAN, AND IT CANNOT BE INSTALLED HERE: the containers are not tried" >&2

containers: $(READY) podman  ## a broker, a server and five phones in containers; digests compared
	@PATH="$$PATH:/usr/sbin" CONTAINERS_CONF=$(CURDIR)/containers/containers.conf \
	  $(BIN)/python containers/trial.py

qemu:            ## the emulator that `make arm64` needs; installed where that is allowed
	@command -v qemu-aarch64-static >/dev/null || { \
	  echo "installing qemu-user-static" && { \
	  $(ROOT) apt-get update -qq && \
	  $(ROOT) apt-get install -y -qq --no-install-recommends qemu-user-static; } >/dev/null 2>&1; } || \
	  echo "NO QEMU, AND IT CANNOT BE INSTALLED HERE: arm64 is not tried" >&2

arm64: $(READY) mosquitto qemu  ## the learners and a worker on an emulated arm64; results compared
	@$(BIN)/python arm64/trial.py

RABBITMQ := .rabbitmq
rabbitmq:        ## RabbitMQ 4 in a chroot of Debian trixie, for `make soak`; made where that is allowed
	@PATH="$$PATH:/usr/sbin"; test -x $(RABBITMQ)/usr/lib/rabbitmq/bin/rabbitmq-server || { \
	  echo "making $(RABBITMQ), a system with RabbitMQ 4: 600 MB, some minutes" && { \
	  { command -v debootstrap && command -v ss; } || { $(ROOT) apt-get update -qq && \
	  $(ROOT) apt-get install -y -qq --no-install-recommends debootstrap iproute2; } && \
	  $(ROOT) debootstrap --variant=minbase --include=rabbitmq-server trixie $(RABBITMQ); \
	  } >/dev/null 2>&1; } || \
	  echo "NO RABBITMQ, AND IT CANNOT BE INSTALLED HERE: tests of the cluster are skipped" >&2

FLOWER := .venv-flower
flower:          ## Flower carries the messages: its own environment, tests, and the example
	$(PYTHON) -m venv $(FLOWER)
	$(FLOWER)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[flower]' \
	  --constraint examples/flower/flower-constraints.txt pytest hypothesis
	$(FLOWER)/bin/python -m pytest tests/flower
	$(FLOWER)/bin/python examples/flower/trial.py

check: $(READY)  ## style, spelling, types, imports, sizes, unreachable names, docstrings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m checks
	$(BIN)/hadolint containers/Containerfile containers/Containerfile.base
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec containers/compose.yaml

bench: $(READY)  ## every benchmark, written to docs/benchmarks.json; then `make docs`
	$(BIN)/python benchmarks/run_all.py

soak: export DEALFL_NUMBA ?= auto
soak: $(READY) mosquitto rabbitmq  ## the long tests: 10,000 interleavings a learner, a million packets, 440 storms
	$(BIN)/python -m pytest -n 2 -m soak tests
	$(BIN)/python -m tests.transport.test_fuzz
	$(BIN)/python -m tests.network.test_storms
	$(BIN)/python -m tests.network.test_tree_storms
	$(BIN)/python -m tests.network.test_tree_storms --large
	$(MAKE) containers

mutate: $(READY)  ## small wrong changes, each against the tests that call it; continues where it stopped
	$(BIN)/python -m checks.mutation

pictures: $(READY) browser  ## the picture of a report, and what its run printed, from the default run
	$(BIN)/python docs/pictures.py

docs: $(READY)   ## the generated pages: commands, keys, messages, transcripts, measurements, claims
	$(BIN)/python -m docs.write

site: $(READY)   ## the documentation as pages in site/, readable without a server
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open site/index.html"

lock: $(READY)   ## resolve the pinned versions again
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --generate-hashes --universal --python-version 3.11 \
	  --no-header --no-annotate --extra all --group dev pyproject.toml --output-file constraints.txt
	$(BIN)/uv pip compile --quiet --generate-hashes --universal --python-version 3.11 \
	  --no-header --no-annotate --extra report --extra sklearn --extra worker --group install \
	  --constraint constraints.txt pyproject.toml --output-file constraints-run.txt

clean:           ## remove generated files
	rm -rf $(VENV) $(FLOWER) $(RABBITMQ) build dist site .arm64 .mutation .soak .pytest_cache .mypy_cache .ruff_cache .hypothesis
