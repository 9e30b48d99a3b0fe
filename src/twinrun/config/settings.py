"""The validated configuration as frozen dataclasses; all config errors at once.

`resolve` checks a config against the schema (see `schema_check`), then for what a schema cannot say
(see `consistency`), and raises one error with a line for each mistake. What `accelerator: auto`
means and which variants this machine cannot run is decided here, so that the workflow asks for no
run that could not start.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from twinrun.config import candidates, matrix_cells, resume_variants
from twinrun.config.consistency import contradictions
from twinrun.config.definitions import (
    Dataset,
    Section,
    Timing,
    Variant,
    Workload,
)
from twinrun.config.lightning_cli import written_out
from twinrun.config.matrix_cells import Cell
from twinrun.config.notes import notes_on, notes_on_inherited
from twinrun.config.rule_records import ListedCell, StopPair
from twinrun.config.schema_check import listed, validate
from twinrun.config.sound_part import sound_part
from twinrun.config.studies import STUDIES
from twinrun.config.sweep_trials import trials
from twinrun.config.timed_variants import untimed
from twinrun.config.trainer_consistency import with_epochs
from twinrun.errors import TwinrunError


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything the config asks for, resolved for this machine."""

    config: dict[str, Any]
    """The config with every default filled in."""
    studies: list[str]
    """Names of those that are asked for, in the order of the config."""
    datasets: dict[str, Dataset]
    """All datasets by name."""
    workloads: dict[str, Workload]
    """All workloads by name, trials of the sweep included."""
    variants: dict[str, Variant]
    """All variants by name; those of matrix and resume included."""
    timings: dict[str, Timing]
    """The timings of all studies by name."""
    not_run: dict[str, str]
    """Variants that this machine cannot run, and why."""
    trials: dict[str, str]
    """The trials of the sweep, each a workload of its own, and the workload that it varies."""
    cells: dict[str, Cell]
    """Cells of the study matrix by name; their variants are among `variants`."""

    notes: list[str] = field(default_factory=list)
    """What to say before the rehearsal."""

    def variants_of(self, study: str) -> list[str]:
        """Name the variants of a study that can run here."""
        return [name for name in self.config[study]["variants"] if name not in self.not_run]

    def timings_of(self, study: str) -> list[str]:
        """Name the timings of a study."""
        timing = STUDIES[study].timing
        names = [f"{timing}_{workload}" for workload in self.config[study]["workloads"]]
        return [name for name in names if name in self.timings]

    def trials_of(self, workload: str) -> list[str]:
        """Name the trials of a workload."""
        return [trial for trial, varied in self.trials.items() if varied == workload]

    def cores_of(self, workload: str, variant: str, *, available: int) -> int:
        """Return the cores that a run asks for: its own, or so many that only few run at once.

        Args:
            workload: its workload, or its trial.
            variant: its variant.
            available: cores that the workflow has.
        """
        needed, study = self.variants[variant].cores, self.config["parallel"]
        at_once = None
        if workload in self.trials:
            at_once = self.config["sweep"]["at_once"]
        elif workload in study["workloads"] and variant in study["variants"]:
            at_once = study["at_once"]
        return max(needed, -(-available // at_once)) if at_once else needed

    def active_workloads(self) -> list[str]:
        """Name the workloads of the chosen studies."""
        named = [name for study in self.studies for name in self.config[study]["workloads"]]
        return list(dict.fromkeys(named))

    def that_show(self, kind: str, workloads: Iterable[str]) -> list[str]:
        """Name those of some workloads whose predictions are to be drawn as `images`, `surface`."""
        return [name for name in workloads if kind in self.config["workloads"][name]["shows"]]

    def stops_of(self, variant: str) -> list[StopPair]:
        """Return the pairs of variants by which the study resume examines a variant."""
        return resume_variants.pairs(variant, self.config["resume"]["stops"])

    def not_run_of(self, study: str) -> dict[str, str]:
        """Name the variants of a study that cannot run here, and why."""
        names = self.config[study].get("variants", [])
        return {name: self.not_run[name] for name in names if name in self.not_run}

    def untimed_of(self, study: str) -> dict[str, str]:
        """Name the variants of a study that run here and no timing of it measures, and why."""
        asked = self.config[study]
        # A growth over sizes is worth measuring alone, a ratio takes two.
        if STUDIES[study].timing is None or not ("sizes" in asked or len(asked["variants"]) > 1):
            return {}
        return untimed(self.variants_of(study), self.variants)

    def pair_of_cell(self, name: str) -> list[dict[str, Any]]:
        """Return variant, seed and repeat of the baseline's run and of a cell's."""
        cell, matrix = self.cells[name], self.config["matrix"]
        baseline = {"variant": matrix["baseline"], "seed": matrix["seed"], "repeat": 1}
        return [baseline, {key: getattr(cell, key) for key in baseline}]

    def fingerprinted_variants(self) -> list[str]:
        """Name the variants whose runs must end in the expected weights."""
        if "fingerprint" not in self.config["require"]:
            return []
        names = self.variants_of("reproducibility")
        return [name for name in names if self.variants[name].deterministic]

    def hindrance_of_cell(self, name: str) -> str | None:
        """Say why a cell cannot run on this machine."""
        variants = [pair["variant"] for pair in self.pair_of_cell(name)]
        return next((self.not_run[name] for name in variants if name in self.not_run), None)

    def cells_that_run(self) -> list[str]:
        """Name the cells of the matrix that can run on this machine."""
        return [name for name in self.cells if self.hindrance_of_cell(name) is None]

    def listed_cells(self) -> list[ListedCell]:
        """Return the cells of the matrix as plain values, each with `not_run`, a reason or None."""
        return [
            {"name": name, "label": cell.label, "not_run": self.hindrance_of_cell(name)}
            for name, cell in self.cells.items()
        ]

    def most_threads(self, timing: str) -> int:
        """Return the threads a timing's process needs."""
        return max(self.variants[name].threads for name in self.timings[timing].variants)


def resolve(
    config: Section, schema: str | Path, *, gpus: int, mistakes: Sequence[str] = ()
) -> Settings:
    """Validate a config and resolve it for a machine.

    Args:
        config: as read from YAML.
        schema: path of the JSON schema, in YAML.
        gpus: how many GPUs the runs will find.
        mistakes: what was found in the files of the config (see `config_files`).

    Raises:
        TwinrunError: with one line for each mistake.
    """
    rules = msgspec.yaml.decode(Path(schema).read_bytes())
    read = written_out(config, rules)
    found = validate(read.config, rules)
    # A mistake in one part hides none in the others: who mends one must not meet the next.
    part = sound_part(found.config, rules, found.wrong)
    others = [] if part is None else contradictions(part, rules, config)
    if problems := [*mistakes, *read.mistakes, *found.mistakes, *others]:
        raise TwinrunError(listed(problems))
    for name, command in read.commands.items():
        found.config["workloads"][name]["cli"] = command
    notes = [*read.notes, *notes_on_inherited(config)]
    return _settings(with_epochs(found.config), gpus, notes)


def _settings(config: dict[str, Any], gpus: int, notes: list[str]) -> Settings:
    config = candidates.resolved(config)
    default = config["accelerator"]
    # Decided once, where the workflow is planned: a node must not decide otherwise.
    if default == "auto":
        default = "gpu" if gpus else "cpu"
    variants, not_run = {}, {}
    cells = matrix_cells.cells(config["matrix"]) if "matrix" in config["studies"] else []
    changed = {
        cell.variant: matrix_cells.with_change(
            config["variants"][config["matrix"]["baseline"]], cell.change
        )
        for cell in cells
    }
    for name, values in {**config["variants"], **changed, **_stopped(config)}.items():
        accelerator = default if values["accelerator"] == "auto" else values["accelerator"]
        variants[name] = msgspec.convert({**values, "accelerator": accelerator}, Variant)
        # `accelerator: gpu` at the top is a promise about machines this one may not be.
        promised = math.inf if config["accelerator"] == "gpu" else gpus
        # A variant that cannot run here stays in the config: its rows say why.
        if (reason := _hindrance(variants[name], gpus=promised)) is not None:
            not_run[name] = reason
    settings = Settings(
        config=config,
        studies=config["studies"],
        datasets=msgspec.convert(_made_of_each(config["datasets"]), dict[str, Dataset]),
        workloads=msgspec.convert(_made_of_each(config["workloads"]), dict[str, Workload]),
        variants=variants,
        timings={},
        not_run=not_run,
        trials={},
        cells={cell.name: cell for cell in cells},
        notes=notes,
    )
    settings.timings.update(_timings(settings))
    for trial, varied, hyperparameters in trials(config):
        settings.trials[trial] = varied
        workload = settings.workloads[varied]
        settings.workloads[trial] = replace(
            workload,
            hyperparameters={**workload.hyperparameters, **hyperparameters},
            epochs=config["sweep"]["epochs"] or workload.epochs,
        )
    settings.notes.extend(notes_on(settings))
    return settings


def _made_of_each(sections: Section) -> dict[str, dict[str, object]]:
    """Leave out what is drawn: it is no setting of a run, whose change would train it again."""
    return {
        name: {key: value for key, value in values.items() if key != "shows"}
        for name, values in sections.items()
    }


def _stopped(config: Section) -> dict[str, dict[str, object]]:
    """Return the variants that the study resume adds, and those that they are compared with."""
    if "resume" not in config["studies"]:
        return {}
    asked = config["resume"]
    found = (
        resume_variants.variants(n, config["variants"][n], asked["stops"])
        for n in asked["variants"]
    )
    return {name: values for variants in found for name, values in variants.items()}


def _hindrance(variant: Variant, *, gpus: float) -> str | None:
    """Say why a variant cannot run on this machine."""
    if variant.gpus > gpus:
        return (
            f"needs {variant.gpus} GPUs, this machine has {gpus}"
            if gpus
            else "no GPU on this machine"
        )
    if variant.stop != "none" and variant.gpus > 1:
        return "several workers can be resumed on CPUs only"
    if variant.batch_norm == "synchronised" and not variant.gpus:
        return "synchronised batch normalisation needs GPUs"
    if variant.precision == "16-mixed" and not variant.gpus:
        return "16-mixed needs a GPU, on a CPU Lightning trains in bf16-mixed in its place"
    if variant.cuda_graph and not variant.gpus:
        return "a CUDA graph needs a GPU"
    if variant.layout == "features_first" and variant.gpus:
        return "features_first is a layout for CPUs"
    return None


def _timings(settings: Settings) -> Iterator[tuple[str, Timing]]:
    """Name the timings the studies lead to, `<timing>_<workload>`."""
    for study, kind in STUDIES.items():
        if study not in settings.studies or kind.timing is None:
            continue
        asked = settings.config[study]
        left_out = settings.untimed_of(study)
        variants = [name for name in settings.variants_of(study) if name not in left_out]
        if len(variants) < (1 if "sizes" in asked else 2):
            continue
        cost = asked.get("cost", asked)
        for workload in asked["workloads"]:
            yield (
                f"{kind.timing}_{workload}",
                Timing(
                    workload=workload,
                    variants=variants,
                    phases=[*kind.phases],
                    rounds=cost["rounds"],
                    steps=cost["steps"],
                    size=asked.get("size"),
                    sizes=asked.get("sizes", []),
                ),
            )
