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
# Most tests wait for processes, so one more at a time than there are cores. The tests with Docker run
# two at a time on any machine: some of them measure how soon an image answers.
SIDE_BY_SIDE := -n $(shell expr $$(nproc) + 1) --dist loadfile
DOCKER_TESTS := -m docker -n 2 --dist loadfile
SOURCES := $(shell find container_src -type f -not -name '*.pyc' 2>/dev/null) pyproject.toml

.PHONY: help train test test-fast test-image test-cuda test-tensorflow check format image sdks lock push dist bench compare \
	cross torture stacks engine clean

help: ## list all commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

train: install ## set everything up and train the example as a job of the local platform
	@[ -f $(EXAMPLE)/data/train.pt ] || $(PY) $(EXAMPLE)/make_data.py $(EXAMPLE)/data
	@if docker/engine.sh && $(STOKER) build --flavor cpu; then engine=docker; \
	else engine=process; echo "make: no container (see above): the same launcher runs as a process"; fi; \
	$(STOKER) train $(EXAMPLE)/src/train.py --channel train=$(EXAMPLE)/data --param epochs=5 \
		--metric 'loss=^epoch .* loss=([0-9.]+)' --metric 'accuracy=^epoch .* accuracy=([0-9.]+)' \
		--engine $$engine --root .work/local; \
	code=$$?; $(STOKER) local down --root .work/local; exit $$code

test: check sdks ## set everything up and run all tests
	$(PY) -m pytest tests -m "not docker" $(SIDE_BY_SIDE)
	docker/engine.sh
	docker/compose.sh
	$(STOKER) build --flavor cpu
	$(STOKER) build --flavor sklearn
	$(PY) -m pytest tests $(DOCKER_TESTS)

test-fast: install sdks ## the tests that need no Docker engine
	$(PY) -m pytest tests -m "not docker" $(SIDE_BY_SIDE)

test-image: image sdks ## the tests on the built image only
	$(STOKER) build --flavor sklearn
	docker/compose.sh
	$(PY) -m pytest tests $(DOCKER_TESTS)

test-cuda: install engine ## build the CUDA image and run it on a CPU; look into the sklearn image
	$(STOKER) build --flavor cuda
	STOKER_TEST_IMAGE=stoker:cuda $(PY) -m pytest tests/docker $(DOCKER_TESTS) --ignore tests/docker/local_mode
	$(STOKER) build --flavor sklearn
	STOKER_TEST_IMAGE=stoker:sklearn $(PY) -m pytest -q tests/docker/test_build_hygiene.py

test-tensorflow: install engine ## build the TensorFlow image, check it and run its tests
	$(STOKER) build --flavor tensorflow
	$(STOKER) check stoker:tensorflow
	STOKER_TEST_IMAGE=stoker:tensorflow $(PY) -m pytest $(DOCKER_TESTS) tests/docker/test_tensorflow.py \
		tests/docker/test_build_hygiene.py tests/platform/sdk/test_example_notebooks.py

check: install ## ruff, mypy --strict, layers
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m pytest -q tests/test_layers.py

format: install ## format the code
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

image: install engine ## build the image: make image FLAVOR=cpu|cuda|sklearn|tensorflow
	$(STOKER) build --flavor $(FLAVOR)

sdks: install ## environments of SageMaker's SDKs v2 and v3, for tests and benchmarks
	$(PY) docker/sdk_venv.py

lock: install ## renew the hash locks of the images
	$(PY) docker/lock.py

push: install ## push to ECR: make push FLAVOR=cpu REPOSITORY=stoker [DRY_RUN=1]
	$(STOKER) push --flavor $(FLAVOR) --repository $(REPOSITORY) $(if $(DRY_RUN),--dry-run)

dist: install ## build wheel and sdist into dist/ and check them as an index would
	rm -rf dist
	$(PY) -m hatchling build
	@[ -x .venv-dist/bin/twine ] || { $(PYTHON) -m venv .venv-dist && .venv-dist/bin/pip install --quiet twine==6.2.0; }
	.venv-dist/bin/twine check --strict dist/*

bench: install sdks ## run all benchmarks and write benchmarks/RESULTS.md
	$(PY) benchmarks/run_all.py

compare: image ## compare our image with the stock toolkit's: compare.html
	$(PY) examples/stock_toolkit_image/build.py
	@# Exit code 1 is expected: checks of the stock images fail.
	$(STOKER) check stoker:cpu stock-toolkit:5.1.4 stock-pytorch-toolkit:3.0.0 --html compare.html || [ $$? = 1 ]

cross: image ## try every check on every deliberate fault (hours; continues where it stopped)
	PYTHONPATH=. $(PY) -m tests.conformance.cross $(if $(MINUTES),--minutes $(MINUTES))

torture: install ## kill training runs 120 times and compare them with an undisturbed one
	$(PY) tests/checkpoints/torture.py --kills 120

stacks: install ## run smdebug's tour under protobuf 3 to 7 and other NumPys
	PYTHONPATH=. $(PY) -m tests.debugging.smdebug_stacks

engine: ## make sure a Docker engine answers (installs and starts one as root on Debian/Ubuntu)
	@docker/engine.sh

clean: ## remove what make has made here (not the images)
	rm -rf $(VENV) .venv-dist dist .venv-sdk-* .build .work .pytest_cache .mypy_cache .ruff_cache .hypothesis

.PHONY: install
install: $(VENV)/.installed

# torch is named with its exact version: a range would bring another build.
$(VENV)/.packages: docker/dev.lock docker/frameworks.lock
	@echo "setting up $(VENV) (a few minutes the first time)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	|| { echo "make: $(PYTHON) is older than 3.11; fix: make PYTHON=python3.11 …"; exit 3; }
	@$(PYTHON) -c 'import ensurepip' \
	|| { echo "make: $(PYTHON) has no venv; fix: apt-get install python3-venv"; exit 3; }
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip
	$(PY) -m pip install --quiet "torch==2.13.0"
	$(PY) -m pip install --quiet --require-hashes -r docker/dev.lock
	@# Their need of torch is met already; without --no-deps pip would want its hash.
	$(PY) -m pip install --quiet --require-hashes --no-deps -r docker/frameworks.lock
	@touch $@

# smdebug as the image has it: made again when our edits of it change.
$(VENV)/.smdebug: $(VENV)/.packages $(shell find container_src/stoker/debugging/smdebug_edits -name '*.py') \
		container_src/stoker/debugging/repack.py
	PYTHONPATH=container_src $(PY) -m stoker smdebug install
	@touch $@

# Installed as users have it, not editable: the .pth file and `train` are part of what is tested.
$(VENV)/.installed: $(VENV)/.smdebug $(SOURCES)
	$(PY) -m pip install --quiet --no-deps --no-build-isolation --force-reinstall .
	@touch $@
