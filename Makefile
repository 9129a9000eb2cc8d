# `make` alone lists what there is. Everything runs in .venv, which uv makes from pyproject.toml.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
UV := $(or $(shell uv --version >/dev/null 2>&1 && command -v uv),.uv/bin/uv)

export UV_PYTHON_DOWNLOADS := never
export UV_PYTHON_PREFERENCE := only-system
export UV_HTTP_TIMEOUT ?= 180
export UV_LINK_MODE ?= copy
# An active environment of someone else must not receive our packages.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME

PYTEST := $(BIN)/python -m pytest
QUICK := $(wildcard tests/unit tests/contract tests/architecture)

.PHONY: help setup demo test check lint strace serve bench soak

help: ## List the commands
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(STAMP) ## See Rota work on real files, and check every word it counted
	@$(BIN)/rota demo

test: lint strace ## Run every check and every test, as CI does
	@$(PYTEST) -n 2 -m "not soak and not alone"
	@if grep -rqs --include='*.py' 'mark\.alone' tests; then $(PYTEST) -m "alone and not soak"; fi

check: lint ## Run the linters and the quick tests, under a minute
	@$(PYTEST) -n 2 -m "not soak and not alone" $(QUICK)

serve: $(STAMP) ## Start a server on this machine
	@$(BIN)/rota serve

bench: $(STAMP) ## Measure, and write the numbers as JSON
	@$(BIN)/python -m benchmarks

soak: $(STAMP) strace ## Run the long form of the proofs (takes a while)
	@$(PYTEST) -m soak -s --timeout 0

setup: $(STAMP)

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

# One proof counts the fsyncs of the live server with strace.
strace:
	@if ! command -v strace >/dev/null; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -q && apt-get install -y -q --no-install-recommends strace; \
		else \
			echo "strace is missing: install it (for example 'sudo apt-get install strace'), then run make again." >&2; \
			exit 1; \
		fi; \
	fi

$(STAMP): pyproject.toml | $(UV)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| $(UV) venv --quiet --clear --python '>=3.11' $(VENV)
	@$(UV) pip install --quiet --python $(BIN)/python --editable . --group dev
	@touch $@

# --target keeps uv private to this folder and is allowed on externally managed Pythons (PEP 668).
.uv/bin/uv:
	@echo "Installing uv into .uv (once) ..."
	@rm -rf .uv
	@python3 -m pip install --quiet --root-user-action=ignore --target .uv uv \
		|| { rm -rf .uv && python3 -m venv .uv && .uv/bin/python -m pip install --quiet uv; }
