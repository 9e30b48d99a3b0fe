"""Params and resources of the rules: what a job is told, and what it asks for.

Params are the only way from the config to a job, as plain values: Snakemake compares them with
those of the last time and reruns a job when they changed. Threads and resources rerun nothing.
Wildcards are mappings of text, as Snakemake gives them to a function.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from twinrun.config import memory, noise_runs
from twinrun.config.class_paths import code_of
from twinrun.config.config_files import hashes_of_contents
from twinrun.config.definitions import Variant
from twinrun.config.inputs import Inputs, Wildcards, perturbed_seed
from twinrun.config.lightning_files import files_of
from twinrun.config.required_runs import required_runs
from twinrun.config.rule_records import ListedRun

HASHES = Path(".snakemake/twinrun/hashes.json")  # beside Snakemake's own memory of the folder


def discard_judgement() -> None:
    """Remove what a gate judged at an earlier start: one that is refused must leave no pass."""
    from twinrun.artifacts import remove  # imports NumPy

    remove("results/gate.json")


@dataclass(frozen=True)
class Params:
    """The functions of params and resources."""

    inputs: Inputs
    """The rules' input functions, with the settings."""
    search_path: Sequence[str]
    """Folders of the user's own modules; a resource, for where they lie is no part of a result: the
    hash of what is imported from them is."""

    @cached_property
    def _workloads(self) -> Mapping[str, Mapping[str, object]]:
        """The workloads as plain values, made once for thousands of runs."""
        return {name: asdict(entry) for name, entry in self.inputs.settings.workloads.items()}

    @cached_property
    def _variants(self) -> Mapping[str, Mapping[str, object]]:
        return {name: asdict(entry) for name, entry in self.inputs.settings.variants.items()}

    def _variant(self, wildcards: Wildcards) -> Variant:
        return self.inputs.settings.variants[wildcards["variant"]]

    # What a job is told

    def settings_of_replay(self, wildcards: Wildcards) -> dict[str, object]:
        """Return what the runs of a comparison are made of."""
        return {
            "workload": self._workloads[wildcards["workload"]],
            "variant": self._variants[wildcards["variant"]],
            "dataset": self.inputs.dataset_of(wildcards["workload"]),
        }

    def settings_of_run(self, wildcards: Wildcards) -> dict[str, object]:
        """Return all that a run is made of, at once: there may be thousands of them."""
        names = {key: wildcards[key] for key in ("workload", "variant")}
        seed, perturbation = perturbed_seed(wildcards["seed"])
        counted = {"repeat": int(wildcards["repeat"]), "perturbation": perturbation}
        return {
            "identity": {**names, "seed": seed, **counted},
            "training": {**self.settings_of_replay(wildcards), "seed": seed},
            "cores": self._variant(wildcards).cores,
        }

    def workload_of_timing(self, wildcards: Wildcards) -> Mapping[str, object]:
        """Return the workload that is timed."""
        return self._workloads[self.inputs.settings.timings[wildcards["timing"]].workload]

    def variants_of_timing(self, wildcards: Wildcards) -> dict[str, Mapping[str, object]]:
        """Return the variants that are timed, the baseline first."""
        names = self.inputs.settings.timings[wildcards["timing"]].variants
        return {name: self._variants[name] for name in names}

    def modules_of_dataset(self, wildcards: Wildcards) -> list[str]:
        """Name the module that makes a dataset."""
        make = self.inputs.settings.datasets[wildcards["dataset"]].make
        return [make.partition(":")[0]] if make else []

    def modules_of_workload(self, wildcards: Wildcards) -> list[str]:
        """Name the modules of a workload's network and data, and the classes of its arguments."""
        return code_of(self.inputs.settings.workloads[wildcards["workload"]])

    @property
    def modules_in_use(self) -> list[list[str]]:
        """Name the modules of each workload of the chosen studies."""
        names = self.inputs.settings.active_workloads()
        return [self.modules_of_workload({"workload": name}) for name in names]

    def modules_of_timing(self, wildcards: Wildcards) -> list[str]:
        """Name the modules of a timing's workload."""
        timing = self.inputs.settings.timings[wildcards["timing"]]
        return self.modules_of_workload({"workload": timing.workload})

    def data_of_run(self, wildcards: Wildcards) -> str | None:
        """Hash the file or folder of the user's own that a workload reads, if it reads one.

        Snakemake goes by the time of an input alone: a file that is moved over another one, or
        unpacked, may be older than the results.
        """
        name = self.inputs.settings.workloads[wildcards["workload"]].dataset
        return None if name is None else self._data.get(name)

    def data_of_timing(self, wildcards: Wildcards) -> str | None:
        """Hash the file or folder of the user's own that a timing's workload reads."""
        timing = self.inputs.settings.timings[wildcards["timing"]]
        return self.data_of_run({"workload": timing.workload})

    @cached_property
    def _data(self) -> Mapping[str, str]:
        """The hashes of the user's own files and folders that are read, by dataset."""
        from twinrun.dataset_files import remembered_sha256  # imports NumPy

        settings = self.inputs.settings
        used = {settings.workloads[name].dataset for name in settings.active_workloads()}
        files = {name: settings.datasets[name].file for name in used if name is not None}
        return {name: remembered_sha256(file, HASHES) for name, file in files.items() if file}

    def images_of_dataset(self, wildcards: Wildcards) -> dict[str, str | None]:
        """Return what a contact sheet shows: the names of arrays."""
        return self.inputs.settings.config["datasets"][wildcards["dataset"]]["shows"]

    def images_of_workload(self, wildcards: Wildcards) -> list[str]:
        """Name the predictions that are drawn as images."""
        return self.inputs.settings.config["workloads"][wildcards["workload"]]["shows"]["images"]

    def surface_of_workload(self, wildcards: Wildcards) -> list[str]:
        """Name the predictions that are drawn as surfaces."""
        return self.inputs.settings.config["workloads"][wildcards["workload"]]["shows"]["surface"]

    def planned_of_gate(self, configs: Sequence[str | Path]) -> dict[str, object]:
        """Return what the config says now: the gate compares it with what it was.

        Args:
            configs: its files.
        """
        return {
            "workloads": self._workloads,
            "variants": self._variants,
            "datasets": {name: self.inputs.dataset_of(name) for name in self._workloads},
            "studies": {
                name: self.inputs.settings.config[name]["workloads"]
                for name in ("reproducibility", "resume")
            }
            | {"contest": self.inputs.contested()},
            "runs": required_runs(self.inputs),
            "configs": hashes_of_contents([*configs, *self._commands()]),
            "config": self.hash_of_config(),
        }

    def _commands(self) -> list[Path]:
        """List the configs of LightningCLI that workloads are."""
        workloads = self.inputs.settings.config["workloads"].values()
        named = [entry["cli"]["file"] for entry in workloads if entry.get("cli")]
        return [file for each in named for file in files_of(each)]

    def runs_of_noise(self, wildcards: Wildcards) -> list[ListedRun]:
        """Return the runs of a scale of the study noise, then the changes that are put on it."""
        settings, pair = self.inputs.settings, (wildcards["workload"], wildcards["variant"])
        return [*noise_runs.scale(settings, *pair), *noise_runs.changes(settings, *pair)]

    def inputs_of_noise(self, wildcards: Wildcards) -> list[str]:
        """List run.json of those that can run here."""
        return [run["run"] for run in self.runs_of_noise(wildcards) if run["run"]]

    def left_out_of_noise(self, wildcards: Wildcards) -> list[str]:
        """Name what has another baseline."""
        pair = (wildcards["workload"], wildcards["variant"])
        return noise_runs.left_out(self.inputs.settings, *pair)

    def ranked_by(self, study: str) -> dict[str, str]:
        """Return the metric of sweep or contest, and which value of it is best."""
        return {key: self.inputs.settings.config[study][key] for key in ("metric", "best")}

    def trained_in_sweep(self, wildcards: Wildcards) -> str | None:
        """Say for how many epochs the trials of a sweep are trained, if not for the workload's."""
        settings = self.inputs.settings
        epochs = settings.config["sweep"]["epochs"]
        own = settings.workloads[wildcards["workload"]].epochs
        if epochs in (None, own):
            return None
        if own < 0:  # max_steps ends it
            return f"after {epochs} epochs, which is not the workload's own length"
        return f"after {epochs} of {own} epochs" if epochs < own else f"after {epochs} epochs"

    def hash_of_config(self) -> str:
        """Hash the whole config, which the command line may have changed."""
        text = json.dumps(self.inputs.settings.config, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    # What a job asks for

    @property
    def folders(self) -> str:
        """The search path as one text, as which a script reads it: see `folders_in`."""
        return os.pathsep.join(self.search_path)

    def gpus_of_replay(self, wildcards: Wildcards) -> int:
        """Return one GPU at most: a replay is one process, however many workers trained."""
        return min(self._variant(wildcards).gpus, 1)

    def gpus_of_timing(self, wildcards: Wildcards) -> int:
        """Return one GPU if any of the variants needs one."""
        settings = self.inputs.settings
        names = settings.timings[wildcards["timing"]].variants
        return int(any(settings.variants[name].accelerator == "gpu" for name in names))

    def resources_of_devices(self) -> dict[str, int | Callable[[Wildcards], object]]:
        """Return the GPUs of a run, and what Slurm must know of one on several nodes.

        What no variant needs has no function, which would be called for each of thousands of runs.
        """
        variants = self.inputs.settings.variants.values()

        def of_nodes(get: Callable[[Variant], int | str]) -> Callable[[Wildcards], object]:
            def resource(wildcards: Wildcards) -> int | str | None:
                variant = self._variant(wildcards)
                return get(variant) if variant.nodes > 1 else None  # None is no resource

            return resource

        resources: dict[str, int | Callable[[Wildcards], object]] = {"gpu": 0}
        if any(variant.gpus for variant in variants):
            resources["gpu"] = lambda wildcards: self._variant(wildcards).gpus
        if any(variant.nodes > 1 for variant in variants):
            resources["nodes"] = of_nodes(lambda variant: variant.nodes)
            resources["tasks"] = of_nodes(lambda variant: variant.devices)
            resources["cpus_per_task"] = of_nodes(lambda variant: variant.threads)
            resources["mpi"] = of_nodes(lambda variant: "srun")
        return resources

    def resource_of_trials(self) -> dict[str, Callable[[Wildcards], object]]:
        """Return what the trials of a sweep are ranked by; of a config without any, nothing."""
        settings = self.inputs.settings
        if not settings.trials:
            return {}
        metric = settings.config["sweep"]["metric"]
        return {
            "metric": lambda wildcards: metric if wildcards["workload"] in settings.trials else None
        }

    def memory_of_run(self, wildcards: Wildcards, attempt: int) -> int:
        """Return what a run asks for, with each attempt as much again; measured by the rehearsal.

        Read when Snakemake asks, which is after the rehearsal of the same start.
        """
        found = self.measured(wildcards["workload"])
        return memory.of_training(found, self._variant(wildcards)) * attempt

    def memory_of_replay(self, wildcards: Wildcards, attempt: int) -> int:
        """Return what locating asks for, likewise."""
        found = self.measured(wildcards["workload"])
        return memory.of_replay(found, self._variant(wildcards)) * attempt

    def memory_of_timing(self, wildcards: Wildcards, attempt: int) -> int:
        """Return what a timing asks for, likewise."""
        timing = self.inputs.settings.timings[wildcards["timing"]]
        variants = [self.inputs.settings.variants[name] for name in timing.variants]
        return memory.of_timing(self.measured(timing.workload), timing, variants) * attempt

    def measured(self, workload: str) -> memory.Measured | None:
        """Return what the last rehearsal measured of a workload; None where there is none."""
        is_rehearsed = self.inputs.settings.config["rehearsal"]
        return memory.measured_of(workload) if is_rehearsed else None
