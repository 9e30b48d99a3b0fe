"""What a config asks to be rehearsed: workloads, their smallest sizes, the trials of a sweep.

Each is one part, with the key of the config that a mistake in it belongs to. Does without torch.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict

from twinrun.config.definitions import Dataset, Training, Variant, Workload
from twinrun.config.memory import Foreseen, Sizes
from twinrun.config.settings import Settings
from twinrun.dataset_files import manifest_of, read_manifest
from twinrun.errors import TwinrunError
from twinrun.process.source_hash import package_files

MOST_TRIALS = 50  # of a sweep; each value of a hyperparameter is tried once before that
SEED = 1
FIRST_BATCH = "the first batch of "


class Rehearsed(TypedDict):
    """What came of a part."""

    key: str
    """As of its `Part`."""
    label: str
    """As of its `Part`."""
    mistakes: list[str]
    """A sentence each; no job may start."""
    notes: list[str]
    """What the user should know; a training is possible."""
    logged: list[str]
    """Names of the metrics that the module logs."""
    steps_per_epoch: int | None
    """Mini-batches of an epoch; None where it did not come to a step."""
    sizes: Sizes | None
    """None where it did not come to a step."""
    foreseen: Foreseen | None
    """Likewise."""
    seconds: float
    """What the rehearsal of it took."""


def first_batch_of(loader: str) -> str:
    """Name what is waited for until a loader has given a batch; the wait is limited."""
    return f"{FIRST_BATCH}{loader}_dataloader"


@dataclass(frozen=True, kw_only=True)
class Part:
    """What is rehearsed at once: a workload, a trial of it, or its smallest size."""

    key: str
    """Where a mistake belongs in the config: `workloads.mine`."""
    label: str
    """For readers: the workload's or the trial's name."""
    training: Training
    """One device and no data workers; the dataset's file, if there is one by now."""
    dataset: str | None = None
    """Name of the dataset, if it is yet to be made."""
    metric: str | None = None
    """What the module must log."""
    study: str = "sweep"
    """The study whose `metric` that is."""
    used: dict[str, Variant] = field(default_factory=dict)
    """The variants that it is trained under, each by its key in the config."""
    is_thorough: bool = False
    """Whether the workload's contract is looked at too (see `contract`)."""

    def outcome(self, *, mistakes: Sequence[str] = ()) -> Rehearsed:
        """Return what came of it where it did not come to a step."""
        return {
            "key": self.key,
            "label": self.label,
            "mistakes": list(mistakes),
            "notes": [],
            "logged": [],
            "steps_per_epoch": None,
            "sizes": None,
            "foreseen": None,
            "seconds": 0.0,
        }


def parts_of(settings: Settings, search_path: Sequence[str]) -> list[Part]:
    """List what a config asks to be rehearsed: its workloads, sizes and trials."""
    parts = []
    for name in settings.active_workloads():
        used = dict(_uses(settings, name))
        if not used:
            continue  # no variant of it can run on this machine
        parts += _of_workload(settings, name, used, list(search_path))
    return parts


def _uses(settings: Settings, workload: str) -> Iterator[tuple[str, Variant]]:
    """Yield the variants under which a workload is trained, each by its key in the config."""
    for study in settings.studies:
        asked = settings.config[study]
        if workload not in asked["workloads"]:
            continue
        if study == "matrix":
            yield f"variants.{asked['baseline']}", settings.variants[asked["baseline"]]
            cells = [settings.cells[name] for name in settings.cells_that_run()]
            changes = list(asked["changes"])
            for cell in cells:
                if cell.change:
                    index = changes.index(dict(cell.change))
                    yield f"matrix.changes.{index}", settings.variants[cell.variant]
        else:
            names = settings.variants_of(study)
            yield from ((f"variants.{name}", settings.variants[name]) for name in names)


def _of_workload(
    settings: Settings, name: str, used: Mapping[str, Variant], search_path: list[str]
) -> Iterator[Part]:
    workload, variants = settings.workloads[name], list(used.values())
    # Validation is rehearsed where any variant validates.
    first = next((variant for variant in variants if variant.validation), variants[0])
    whole = _part(settings, f"workloads.{name}", name, workload, first, search_path)
    yield replace(
        whole,
        # A module that needs a logger fails under a variant without one, and under no other.
        training=replace(
            whole.training,
            variant=replace(whole.training.variant, logging=all(v.logging for v in variants)),
        ),
        used=dict(used),
        metric=settings.config["contest"]["metric"] if _is_candidate(settings, name) else None,
        study="contest",
    )
    # The smallest size: it shows a wrong type as well as the largest, which may take minutes.
    study = settings.config["devices"]
    if "devices" in settings.studies and name in study["workloads"]:
        size = min(study["sizes"])
        changed = {**workload.hyperparameters, study["size"]: size}
        workload = replace(workload, hyperparameters=changed)
        label = f"{name} with {study['size']}: {size}"
        yield _part(settings, "devices.size", label, workload, first, search_path)
    if settings.trials_of(name):
        for trial in _covering(settings, settings.trials_of(name)):
            variant = settings.variants[settings.variants_of("sweep")[0]]
            part = _part(
                settings, "sweep.trials", trial, settings.workloads[trial], variant, search_path
            )
            yield replace(part, metric=settings.config["sweep"]["metric"])


def _is_candidate(settings: Settings, workload: str) -> bool:
    return "contest" in settings.studies and workload in settings.config["contest"]["workloads"]


def _covering(settings: Settings, trials: Sequence[str]) -> list[str]:
    """Choose trials in which each value of each hyperparameter is tried once."""
    chosen, tried = [], set()
    for trial in trials:
        values = {
            (key, json.dumps(value))
            for key, value in settings.workloads[trial].hyperparameters.items()
        }
        if not chosen or not values <= tried:
            chosen.append(trial)
        tried |= values
    return chosen[:MOST_TRIALS]


def _part(
    settings: Settings,
    key: str,
    label: str,
    workload: Workload,
    variant: Variant,
    search_path: list[str],
) -> Part:
    file, unmade = None, None
    if workload.dataset is not None:
        dataset = settings.datasets[workload.dataset]
        made = Path(f"results/data/{workload.dataset}.npz")
        file = dataset.file or (str(made) if _is_current(made, dataset, search_path) else None)
        unmade = workload.dataset if file is None else None
    return Part(
        key=key,
        label=label,
        dataset=unmade,
        training=Training(
            workload=workload,
            variant=_plain(variant),
            seed=SEED,
            dataset=file,
            search_path=search_path,
        ),
    )


def _is_current(made: Path, dataset: Dataset, search_path: list[str]) -> bool:
    """Say whether a dataset that was made is the one that would be made now.

    One that is not will be made again before any training; a rehearsal makes it for itself.
    """
    if not made.exists() or dataset.make is None:
        return False
    try:
        manifest = read_manifest(manifest_of(made))
    except (OSError, TwinrunError):
        return False
    is_of_config = (manifest["make"], manifest["parameters"]) == (
        dataset.make,
        dict(dataset.parameters),
    )
    sources = package_files(dataset.make.partition(":")[0], search_path)
    return is_of_config and all(Path(f).stat().st_mtime <= made.stat().st_mtime for f in sources)


def _plain(variant: Variant) -> Variant:
    """Return a variant without what is slow to begin or takes several processes."""
    return replace(
        variant,
        deterministic=False,
        data_workers=0,
        persistent_workers=False,
        devices=1,
        nodes=1,
        sharding="canonical",
        scale_batch_with_devices=False,
        batch_norm="joined",
        compile="none",
        layout="default",
        optimizer="default",
        cuda_graph=False,
        accumulate=1,
        checkpointing=False,
        stop="none",
    )
