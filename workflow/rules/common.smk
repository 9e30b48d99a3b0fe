# What every stage shares: the checked settings, wildcard constraints, what a job depends on.

import gc
import os
import sys
from dataclasses import asdict
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError

from twinrun.config.config_files import module_folders
from twinrun.config.inputs import DATASET, RUN, TIMING, Inputs
from twinrun.config.minutes import Minutes
from twinrun.config.params import Params, discard_judgement
from twinrun.config.settings import resolve
from twinrun.config.shipped import SCHEMA, STANDARD, shipped
from twinrun.config.studies import STUDIES as STUDY_CLASSES
from twinrun.config.targets import Targets
from twinrun.config.with_standard import mistakes_in
from twinrun.errors import TwinrunError
from twinrun.process.environment import planned_identity
from twinrun.process.gpus import count_gpus
from twinrun.process.import_log import state_of
from twinrun.process.job import require_threads
from twinrun.process.parent import name_workflow
from twinrun.process.planned_code import hash_of_code, modules_beside
from twinrun.process.python_path import check_python
from twinrun.process.unmet_requirements import check_own
from twinrun.training.start_rehearsal import rehearse

# A job on a cluster parses this file again, on its node: what `auto` means is decided once, here.
os.environ.setdefault("TWINRUN_GPUS", str(count_gpus()))


# On Linux a job ends with the Snakemake that has parsed this file last, though it is killed.
name_workflow()


envvars:
    "TWINRUN_GPUS",


# What a gate judged, what a page links to and what failed is looked for in results/ itself.
RESULTS = workflow.modifier.path_modifier.replace_prefix("results", None)
if RESULTS != "results":
    raise WorkflowError(
        "the module statement's prefix or replace_prefix would put Twinrun's results into "
        f"{RESULTS}/, and they must lie in results/; leave it out, or start Twinrun by itself in "
        "another folder: twinrun run --directory FOLDER"
    )

# The user's: named on the command line, or by the workflow that uses this one as a module.
CONFIG_FILES = [Path(file) for file in workflow.configfiles]

try:
    SETTINGS = resolve(
        config,
        SCHEMA,
        gpus=int(os.environ["TWINRUN_GPUS"]),
        mistakes=mistakes_in(CONFIG_FILES),
    )
except TwinrunError as error:
    if workflow.is_main_process:
        discard_judgement()
    raise WorkflowError(str(error)) from None

SEARCH_PATH = module_folders(CONFIG_FILES)

TEMPLATES = [
    os.path.relpath(file)
    for ending in ("j2", "css")
    for file in shipped("workflow/report").rglob(f"*.{ending}")
]

INPUTS = Inputs(SETTINGS)
PARAMS = Params(INPUTS, SEARCH_PATH)
MINUTES = Minutes(PARAMS)
STUDIES = {name: study(name, INPUTS) for name, study in STUDY_CLASSES.items()}
TARGETS = Targets(SETTINGS, STUDIES)


wildcard_constraints:
    dataset="[A-Za-z][A-Za-z0-9_-]*",
    workload=r"[A-Za-z][\w~.+-]*",  # a trial's name carries values
    variant="[A-Za-z][A-Za-z0-9_-]*",
    baseline="[A-Za-z][A-Za-z0-9_-]*",
    timing="[A-Za-z][A-Za-z0-9_-]*",
    cell="[A-Za-z][A-Za-z0-9_-]*",
    study="[a-z]+",
    seed="[0-9]+(-ulp[1-9][0-9]*)?",  # the same seed, with one weight changed by one ULP
    repeat="[0-9]+",


# What is loaded by now stays: the garbage collector need not look through it for each of 2,000 runs.
gc.freeze()


# What code and data a job depends on


@cache  # asked for each of thousands of runs
def hash_of(script, *modules):
    """Hash the code of a rule's script, of modules and of what they import: a change reruns it."""
    scripts = [shipped(f"workflow/{script}")]
    return hash_of_code(modules, SEARCH_PATH, scripts=scripts)


@cache
def planned():
    return planned_identity()


def versions_of(wildcards):
    """Return all versions: an upgrade reruns what depends on them.

    The machine is not among them, which plans for others on a cluster: the gate looks at it.
    """
    return planned()


def cores_of_run(wildcards):
    """Return the cores of a run; how many there are is known to Snakemake alone."""
    return SETTINGS.cores_of(
        wildcards.workload, wildcards.variant, available=workflow.cores
    )
