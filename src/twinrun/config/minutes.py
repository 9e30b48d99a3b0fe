"""The minutes that the rules ask for: `runtime`, as functions of a job's wildcards and attempt.

Read when Snakemake asks, which is after the rehearsal of the same start. Each attempt asks for as
many again. A resource reruns nothing.
"""

from dataclasses import dataclass

from twinrun.config import runtime
from twinrun.config.definitions import Variant, Workload
from twinrun.config.inputs import Wildcards
from twinrun.config.params import Params


@dataclass(frozen=True)
class Minutes:
    """The functions of `runtime`."""

    params: Params
    """What else the rules ask for."""

    def _trained(self, wildcards: Wildcards) -> tuple[Workload, Variant]:
        settings = self.params.inputs.settings
        return settings.workloads[wildcards["workload"]], settings.variants[wildcards["variant"]]

    def of_run(self, wildcards: Wildcards, attempt: int) -> int:
        """Return the minutes of a run."""
        workload, variant = self._trained(wildcards)
        found = self.params.measured(wildcards["workload"])
        return runtime.of_training(found, workload, variant) * attempt

    def of_timing(self, wildcards: Wildcards, attempt: int) -> int:
        """Return the minutes of a timing."""
        settings = self.params.inputs.settings
        timing = settings.timings[wildcards["timing"]]
        variants = [settings.variants[name] for name in timing.variants]
        found = self.params.measured(timing.workload)
        workload = settings.workloads[timing.workload]
        return runtime.of_timing(found, workload, timing, variants) * attempt

    def of_location(self, wildcards: Wildcards, attempt: int) -> int:
        """Return the minutes of locating."""
        seeds = len(self.params.inputs.settings.config[wildcards["study"]]["seeds"])
        workload, variant = self._trained(wildcards)
        found = self.params.measured(wildcards["workload"])
        return runtime.of_location(found, workload, variant, seeds) * attempt

    def of_seeds(self, wildcards: Wildcards, attempt: int) -> int:
        """Return the minutes of a comparison of a study's seeds."""
        asked = self.params.inputs.settings.config[wildcards["study"]]
        seeds, repeats = len(asked["seeds"]), asked.get("repeats", 1)
        found = self.params.measured(wildcards["workload"])
        pairs = seeds * max(repeats - 1, 1)
        return runtime.of_comparison(found, pairs=pairs, seeds=seeds) * attempt

    def of_change(self, wildcards: Wildcards, attempt: int) -> int:
        """Return the minutes of the comparison of one pair."""
        return runtime.of_comparison(self.params.measured(wildcards["workload"]), pairs=1) * attempt

    def of_stops(self, wildcards: Wildcards, attempt: int) -> int:
        """Return the minutes of the comparison of all kinds of stop."""
        pairs = len(self.params.inputs.pairs_of_resume(wildcards))
        return (
            runtime.of_comparison(self.params.measured(wildcards["workload"]), pairs=pairs)
            * attempt
        )

    def of_noise(self, wildcards: Wildcards, attempt: int) -> int:
        """Return the minutes in which all runs of a scale are compared with the first."""
        pairs = len(self.params.inputs_of_noise(wildcards))
        return (
            runtime.of_comparison(self.params.measured(wildcards["workload"]), pairs=pairs)
            * attempt
        )
