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
include: "workflow/rules/figures/reproducibility.smk"
include: "workflow/rules/figures/training.smk"
include: "workflow/rules/figures/data.smk"
include: "workflow/rules/figures/devices.smk"
include: "workflow/rules/figures/acceleration.smk"
include: "workflow/rules/figures/parallel.smk"
include: "workflow/rules/figures/sweep.smk"
include: "workflow/rules/figures/matrix.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/gate.smk"


rule all:
    """Everything the config asks for, ending in the report."""
    default_target: True
    input:
        report="results/report.html",
        results=TARGETS.results,


# One target per study.
for study in STUDIES.values():

    rule:
        name:
            study.name
        input:
            verdicts=f"results/verdicts/{study.name}.csv",
            results=study.results,

    workflow.get_rule(study.name).docstring = f"Study: {study.question}"


onstart:
    check_gate()
    rehearse_workloads()


onsuccess:
    show_verdicts()
