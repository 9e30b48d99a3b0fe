"""Which runs are behind each thing that the gate requires: a training that failed fails it.

Where this machine lacks what a variant needs, there is no run, and nothing has failed.
"""

from collections.abc import Sequence

from twinrun.config.inputs import RUN, Inputs

PAIR = "_pair"  # of a variant, at the end of a requirement's name


def required_runs(inputs: Inputs) -> dict[str, list[str]]:
    """List run.json of the runs behind each requirement, by its name in `require`."""
    required = inputs.settings.config["require"]
    return {name: list(dict.fromkeys(_behind(inputs, name, required[name]))) for name in required}


def _behind(inputs: Inputs, name: str, wanted: str | Sequence[str]) -> list[str]:
    settings, study = inputs.settings, "reproducibility"
    if name == "matrix":
        workloads, cells = settings.config["matrix"]["workloads"], settings.cells_that_run()
        changes = [{"workload": w, "cell": c} for w in workloads for c in wanted if c in cells]
        return [run for change in changes for run in inputs.runs_of_change(change)]
    if name == "contest":
        return inputs.of_study("contest", RUN) if inputs.contests() else []
    if name == "resume":
        workloads, variants = settings.config["resume"]["workloads"], settings.variants_of("resume")
        examined = [{"workload": w, "variant": v} for w in workloads for v in variants]
        pairs = [pair for each in examined for pair in inputs.pairs_of_resume(each)]
        # What Lightning's own checkpoints lose is for the report.
        ours = [pair for pair in pairs if pair["resume"] == "twinrun"]
        return [run for pair in ours for run in (pair["whole"], pair["stopped"])]
    if name == "fingerprint":
        return inputs.runs_of_fingerprint({})
    if name == "determinism_cost":
        untimed = settings.untimed_of(study)
        timed = [variant for variant in settings.variants_of(study) if variant not in untimed]
        return inputs.of_study(study, RUN, variant=timed)
    variant = name.removesuffix(PAIR)
    runs_here = variant in settings.variants_of(study)
    return inputs.of_study(study, RUN, variant=[variant]) if runs_here else []
