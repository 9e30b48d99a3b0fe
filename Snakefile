# Twinrun: does training repeat, what does repeating cost, what does hardware buy?
# Stages in workflow/rules, one file each; what is asked for in config.yaml.

import sys

from snakemake.utils import min_version

min_version("9.27")


configfile: f"{workflow.basedir}/config.yaml"


sys.path.insert(0, f"{workflow.basedir}/src")


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/runs.smk"
include: "workflow/rules/comparisons.smk"
include: "workflow/rules/matrix.smk"
include: "workflow/rules/resumes.smk"
include: "workflow/rules/timings.smk"
include: "workflow/rules/rankings.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/gate.smk"


rule all:
    """Everything the config asks for, ending in the report."""
    default_target: True
    input:
        report="results/report.html",
        results=TARGETS.studies,


rule reproducibility:
    """Study: does training repeat, bit for bit, and what does determinism cost?"""
    input:
        verdicts="results/verdicts/reproducibility.csv",
        results=TARGETS.reproducibility,


rule devices:
    """Study: from which size on is another device faster?"""
    input:
        verdicts="results/verdicts/devices.csv",
        results=TARGETS.devices,


rule acceleration:
    """Study: what does an accelerated variant buy, and what does it change?"""
    input:
        verdicts="results/verdicts/acceleration.csv",
        results=TARGETS.acceleration,


rule resume:
    """Study: what does a training lose that is stopped and resumed?"""
    input:
        verdicts="results/verdicts/resume.csv",
        results=TARGETS.resume,


rule parallel:
    """Study: what do several workers buy, does it repeat, and is it what one does?"""
    input:
        verdicts="results/verdicts/parallel.csv",
        results=TARGETS.parallel,


rule sweep:
    """Study: which hyperparameters do best?"""
    input:
        verdicts="results/verdicts/sweep.csv",
        results=TARGETS.sweep,


rule matrix:
    """Study: which changes of setting change what is learned, and by how much?"""
    input:
        verdicts="results/verdicts/matrix.csv",
        results=TARGETS.matrix,


onstart:
    check_workloads()


onsuccess:
    show_verdicts()
