# Everything a contributor or CI does. `make help` lists it; buildspec.yml and .ci/run call only these.
SHELL := /bin/bash
.DEFAULT_GOAL := help
FLAVOR ?= cpu
REPOSITORY ?= stoker
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STOKER := $(VENV)/bin/stoker
EXAMPLE := examples/00_unchanged_script
SOURCES := $(shell find container_src -type f -not -name '*.pyc' 2>/dev/null) pyproject.toml

.PHONY: help train test test-fast test-image test-cuda check format image lock push bench engine clean

help: ## list all commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

train: install ## set everything up and train the example in a container
	@if docker/engine.sh; then $(STOKER) build --flavor cpu; fi
	@[ -f $(EXAMPLE)/data/train.pt ] || $(PY) $(EXAMPLE)/make_data.py $(EXAMPLE)/data
	$(STOKER) train $(EXAMPLE)/src/train.py --channel train=$(EXAMPLE)/data --param epochs=5

test: install check engine image-under-test ## set everything up and run all tests
	$(PY) -m pytest tests

test-fast: install ## the tests that need no Docker engine
	$(PY) -m pytest tests -m "not docker"

test-image: install engine image-under-test ## the tests on the built image only
	$(PY) -m pytest tests -m docker

test-cuda: install engine ## build the CUDA image and run it on a CPU
	$(STOKER) build --flavor cuda
	STOKER_TEST_IMAGE=stoker:cuda $(PY) -m pytest tests/image -m docker

check: install ## ruff, mypy --strict, layers
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m pytest -q tests/unit/test_layers.py

format: install ## format the code
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

image: install engine ## build the image: make image FLAVOR=cpu|cuda
	$(STOKER) build --flavor $(FLAVOR)

lock: install ## renew the hash locks of the images
	$(PY) docker/lock.py

push: install ## push to ECR: make push FLAVOR=cpu REPOSITORY=stoker [DRY_RUN=1]
	$(STOKER) push --flavor $(FLAVOR) --repository $(REPOSITORY) $(if $(DRY_RUN),--dry-run)

bench: install ## run all benchmarks and write benchmarks/RESULTS.md
	$(PY) benchmarks/run_all.py

engine: ## make sure a Docker engine answers (installs and starts one as root on Debian/Ubuntu)
	@docker/engine.sh

clean: ## remove what make has made here (not the images)
	rm -rf $(VENV) .build .work .pytest_cache .mypy_cache .ruff_cache .hypothesis

.PHONY: install image-under-test
install: $(VENV)/.installed

# torch is named with its exact version: a range would bring another build.
$(VENV)/.packages: docker/dev.lock
	@echo "setting up $(VENV) (a few minutes the first time)"
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip
	$(PY) -m pip install --quiet "torch==2.13.0"
	$(PY) -m pip install --quiet --require-hashes -r docker/dev.lock
	@touch $@

# Installed as users have it, not editable: the .pth file and `train` are part of what is tested.
$(VENV)/.installed: $(VENV)/.packages $(SOURCES)
	$(PY) -m pip install --quiet --no-deps --no-build-isolation --force-reinstall .
	@touch $@

image-under-test: install
	$(STOKER) build --flavor cpu
