# make install, install-dev, train, test, check, smollm2, clean
PYTHON ?= python3
PIP := .venv/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt
ARGS ?=

.PHONY: install install-dev train test check smollm2 clean
.DEFAULT_GOAL := install

install: .venv/installed  ## what a run needs, in .venv

install-dev: .venv/installed-dev  ## and what the tests need

train: install  ## the built-in model learns to think; more options in ARGS="--seed 3"
	@.venv/bin/rlvr train $(ARGS)

test: install-dev
	@.venv/bin/python -m pytest -n auto --maxprocesses 8 $(ARGS)

check: install-dev  ## format, lint, types
	@.venv/bin/ruff format --check --quiet . || { .venv/bin/ruff format --check .; exit 1; }
	@.venv/bin/ruff check --quiet .
	@.venv/bin/mypy

smollm2: models/smollm2-135m-instruct/model.safetensors  ## a real small model as a directory

models/smollm2-135m-instruct/model.safetensors: | install-dev
	@if [ -e ../shared/tools/get_smollm2.py ]; then \
	  $(PIP) accelerate gguf && \
	  .venv/bin/python ../shared/tools/get_smollm2.py models/smollm2.part && \
	  rm -rf models/smollm2-135m-instruct && mv models/smollm2.part models/smollm2-135m-instruct; \
	else \
	  .venv/bin/python -c 'from huggingface_hub import snapshot_download; \
	    snapshot_download("HuggingFaceTB/SmolLM2-135M-Instruct", local_dir="$(@D)", \
	    allow_patterns=["*.json", "*.jinja", "model.safetensors"])'; \
	fi

clean:  ## everything made here but runs/ and models/
	@rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis src/*.egg-info
	@find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

.venv/installed: pyproject.toml constraints.txt
	@$(call into_venv,.,rlvr)
	@touch $@

.venv/installed-dev: pyproject.toml constraints.txt
	@$(call into_venv,.[dev],rlvr and what its tests need)
	@touch .venv/installed $@

# An install that was cut short leaves `.venv/unfinished` behind; the next one starts afresh,
# because pip takes a half-written package for a whole one.
define into_venv
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
  echo "rlvr needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)."; \
  echo "Install one, or name it: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }; \
if [ -e .venv/unfinished ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then \
  rm -rf .venv && mkdir .venv && touch .venv/unfinished && $(PYTHON) -m venv .venv || { \
    echo "$(PYTHON) could not make .venv; on Debian: apt-get install python3-venv"; exit 1; }; \
fi; \
touch .venv/unfinished; \
echo "Installing $(2) into .venv (a minute or a few, most of it PyTorch) ..."; \
$(PIP) -e '$(1)' && rm .venv/unfinished
endef
