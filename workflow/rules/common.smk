# What every stage shares: the checked settings, wildcard constraints, what a job depends on.

import gc
import os
import sys
from dataclasses import asdict
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError

from twinrun.config.config_files import mistakes_of, module_folders
from twinrun.config.inputs import DATASET, RUN, TIMING, Inputs
from twinrun.config.minutes import Minutes
from twinrun.config.params import Params, discard_judgement
from twinrun.config.settings import resolve
from twinrun.config.shipped import SCHEMA, STANDARD, shipped
from twinrun.config.studies import STUDIES as STUDY_CLASSES
from twinrun.config.targets import Targets
from twinrun.errors import TwinrunError
from twinrun.process.environment import planned_identity
from twinrun.process.gpus import count_gpus
from twinrun.process.import_log import state_of
from twinrun.process.planned_code import hash_of_code, modules_beside
from twinrun.training.start_rehearsal import rehearse

# A job on a cluster parses this file again, on its node: what `auto` means is decided once, here.
os.environ.setdefault("TWINRUN_GPUS", str(count_gpus()))


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

# The folder of our rules: another workflow may give them other names, but no other scripts.
RULES = workflow.current_basedir

# The user's: named on the command line, or by the workflow that uses this one as a module.
CONFIG_FILES = [Path(file) for file in workflow.configfiles]

try:
    SETTINGS = resolve(
        config,
        SCHEMA,
        gpus=int(os.environ["TWINRUN_GPUS"]),
        mistakes=[m for file in CONFIG_FILES for m in mistakes_of(file)],
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


# Before any job


def of_script(script, jobs):
    """Return those of some jobs that execute one of our scripts."""
    names = (f"../scripts/{script}.py", RULES)
    return [job for job in jobs if (job.rule.script, job.rule.basedir) == names]


def rehearse_workloads():
    """Take one step of all that the config's workloads do; on Slurm on a node, as they will."""
    trainings = of_script("train", workflow.dag.jobs)[:1]
    resources = None
    if workflow.executor_plugin.name == "slurm":
        resources = dict(trainings[0].resources.items()) if trainings else {}
    try:
        if SETTINGS.config["rehearsal"]:
            rehearse(SETTINGS, SEARCH_PATH, resources=resources)
        for job in trainings:
            job.attempt = job.attempt  # asked anew what it needs, measured by now
    except TwinrunError as error:
        discard_judgement()
        raise WorkflowError(str(error)) from None


def check_gate():
    """Discard what is judged anew, as jobs may fail; refuse a gate that would pass in any case."""
    is_asked = of_script("require", workflow.dag.jobs)
    is_refused = is_asked and not SETTINGS.config["require"]
    if is_refused or of_script("require", workflow.dag.needrun_jobs()):
        discard_judgement()
    if is_refused:
        raise WorkflowError(
            "require: the gate has nothing to judge; name what must hold, such as "
            "{deterministic_pair: equal}"
        )


def show_verdicts():
    """Print the verdicts where the workflow made them, and where the page is."""
    # Here, as it imports pandas, which no parse should wait for.
    from twinrun.verdicts.judge import summary_lines

    verdicts, page = Path("results/verdicts.csv"), Path("results/report.html")
    lines = summary_lines(verdicts) if verdicts.exists() else []
    if of_script("report", workflow.dag.jobs):
        lines += ["", f"Report: {page}"]
    print("", *lines, "", sep="\n", file=sys.stderr)


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
