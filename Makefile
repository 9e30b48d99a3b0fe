# Five targets: run, demo, test, check, picture. The environment is made once and again when its pins
# change. Tests run side by side: a waiting thread sleeps instead of taking a core from another. What
# pytest is to be told besides: make test ARGS="-m slow".

PYTHON ?= python3
BIN := .venv/bin

# Each of hundreds of processes would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run demo test check picture

run: .venv/ready
	$(BIN)/snakemake --cores all
	@$(MAKE) --no-print-directory results/provenance.html
	@echo "The report: results/report.html"

demo: .venv/ready
	@mkdir -p demo
	$(BIN)/snakemake --cores all --directory demo --configfile tests/configs/demo.yaml
	@echo "The report: demo/results/report.html"

test: .venv/ready
	OMP_WAIT_POLICY=passive $(BIN)/pytest --numprocesses auto \
		--dist loadfile --no-loadscope-reorder $(ARGS)

check: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyrefly check
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

# The README's picture, of a report at full size.
picture: run
	$(BIN)/python tests/picture.py results/report.html

# Snakemake's own report: rules, code, run times.
results/provenance.html: results/report.html
	$(BIN)/snakemake --report $@ --quiet

.venv/ready: pyproject.toml requirements.lock
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint requirements.lock --editable '.[test]'
	@touch $@
