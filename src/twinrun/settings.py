"""The validated configuration as frozen dataclasses; all config errors at once.

`resolve` checks a config against the schema, which also holds every default, then what a schema
cannot say (names that must exist, arguments that contradict each other), and raises one error with
a line for each mistake. What `accelerator: auto` means and which variants this machine cannot run
is decided here, so that the workflow asks for no run that could not start.
"""

import difflib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator, ValidationError, validators

from twinrun import factors, stops
from twinrun.factors import Cell
from twinrun.jobs import TwinrunError

# What the timings of a study are called; a workload's name follows.
TIMINGS = {
    "reproducibility": "determinism",
    "devices": "devices",
    "acceleration": "acceleration",
}
# What is measured in them.
PHASES = {
    "reproducibility": ["train"],
    "devices": ["train", "trainer"],
    "acceleration": ["train", "trainer", "predict"],
}


LONGEST_TRIAL = 200  # letters of a folder's name; file systems end at 255


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A dataset: made by a function, or a file of the user's."""

    make: str | None = None
    """Import path of the function that makes it."""
    parameters: Mapping[str, Any]
    """Its keyword arguments."""
    file: str | None = None
    """The user's own file."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A LightningModule, a LightningDataModule and their hyperparameters."""

    module: str
    """Import path of the LightningModule."""
    data: str
    """Import path of the LightningDataModule."""
    dataset: str | None
    """Name of its dataset."""
    hyperparameters: Mapping[str, Any]
    """Keyword arguments of the two constructors."""
    epochs: int
    """Epochs of training."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Execution settings: never what is computed, only how."""

    accelerator: str
    """`cpu` or `gpu`, resolved."""
    deterministic: bool
    """Only reproducible algorithms."""
    threads: int
    """torch's threads."""
    data_workers: int
    """Processes that prepare batches."""
    precision: str
    """Lightning's name of it."""
    devices: int
    """Worker processes; on GPUs each has one."""
    nodes: int
    """Machines of a cluster that share the workers evenly."""
    sharing: str
    """How workers share the data: `canonical` or `partitioned`."""
    scale_batch_with_devices: bool
    """Mini-batches as many times larger as there are workers."""
    batch_norm: str
    """How workers join the statistics: `joined` or `synchronised`."""
    compile: str
    """`none`, `module` (its steps) or `step` (with backward pass and optimizer)."""
    layout: str
    """`default`, `channels_last` or `features_first`."""
    optimizer: str
    """The optimizer's form: `default`, `foreach` or `fused`."""
    cuda_graph: bool
    """Steps captured and replayed."""
    fill_uninitialized_memory: bool
    """Fill what an operation leaves uninitialised; deterministic variants only."""
    persistent_workers: bool
    """Keep the data workers from epoch to epoch."""
    accumulate: int
    """Parts that each mini-batch is cut into; their gradients are accumulated."""
    validation: bool
    """Validate while training."""
    checkpointing: bool
    """Write Lightning's checkpoints while training."""
    logging: bool
    """Show Lightning's progress bar and write its logger."""
    environment: Mapping[str, str]
    """Environment variables of the run's fresh process."""
    stop: str
    """Where the training is stopped, for a second process to go on: see `interruption`."""
    resume: str
    """By what it goes on: `lightning` or `twinrun`."""

    @property
    def cores(self) -> int:
        """What a run needs, on each of its nodes."""
        return self.devices // self.nodes * self.threads

    @property
    def gpus(self) -> int:
        """What a run needs."""
        return self.devices if self.accelerator == "gpu" else 0

    @property
    def is_timed(self) -> bool:
        """Whether a timing, which is one process that does whole steps, can measure it."""
        is_plain = self.accumulate == 1 and not self.environment and self.stop == "none"
        return self.devices == 1 and is_plain


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Variants of one workload to be measured in turn; the first is the yardstick."""

    workload: str
    variants: list[str]
    rounds: int
    steps: int
    """Steps in a round of one variant."""
    phases: list[str]
    """Of `train`, `trainer` and `predict`; `transfer` and `first_call` are always measured."""
    size: str | None = None
    """The hyperparameter that takes the values of `sizes` in turn."""
    sizes: list[int] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything the config asks for, resolved for this machine."""

    config: dict[str, Any]
    """The config with every default filled in."""
    studies: list[str]
    datasets: dict[str, Dataset]
    workloads: dict[str, Workload]
    variants: dict[str, Variant]
    timings: dict[str, Timing]
    not_run: dict[str, str]
    """Variants that this machine cannot run, and why."""
    trials: dict[str, str]
    """The trials of the sweep, each a workload of its own, and the workload that it varies."""
    cells: dict[str, Cell]
    """Of the study matrix; their variants are among `variants`."""

    def variants_of(self, study: str) -> list[str]:
        """Name the variants of a study that can run here."""
        return [name for name in self.config[study]["variants"] if name not in self.not_run]

    def timings_of(self, study: str) -> list[str]:
        """Name the timings of a study."""
        if study not in TIMINGS:
            return []
        names = [f"{TIMINGS[study]}_{workload}" for workload in self.config[study]["workloads"]]
        return [name for name in names if name in self.timings]

    def trials_of(self, workload: str) -> list[str]:
        """Name the trials of a workload."""
        return [trial for trial, varied in self.trials.items() if varied == workload]

    def repeats_of(self, workload: str, variant: str, seed: int) -> int:
        """Give the repeats of a run that the study asks for that wants most of them."""
        studies = [self.config[study] for study in ("reproducibility", "parallel")]
        asking = [
            study["repeats"]
            for study in studies
            if workload in study["workloads"]
            and variant in study["variants"]
            and seed in study["seeds"]
        ]
        return max(asking, default=2)

    def cores_of(self, workload: str, variant: str, *, available: int) -> int:
        """Give the cores that a run asks for: its own, or so many that only few run at once.

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

    def stops_of(self, variant: str) -> list[dict[str, str]]:
        """Give the pairs of variants by which the study resume examines a variant."""
        return stops.pairs(variant, self.config["resume"]["stops"])

    def not_run_of(self, study: str) -> dict[str, str]:
        """Name the variants of a study that cannot run here, and why."""
        names = self.config[study].get("variants", [])
        return {name: self.not_run[name] for name in names if name in self.not_run}

    def pair_of_cell(self, name: str) -> list[dict[str, Any]]:
        """Give variant, seed and repeat of the baseline's run and of a cell's."""
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

    def listed_cells(self) -> list[dict[str, Any]]:
        """Give the cells of the matrix as plain values, each with `not_run`, a reason or None."""
        return [
            {"name": name, "label": cell.label, "not_run": self.hindrance_of_cell(name)}
            for name, cell in self.cells.items()
        ]

    def most_threads(self, timing: str) -> int:
        """Give the threads a timing's process needs."""
        return max(self.variants[name].threads for name in self.timings[timing].variants)

    def any_deterministic(self, timing: str) -> bool:
        """Say whether the process of a timing must be ready for deterministic algorithms."""
        return any(self.variants[name].deterministic for name in self.timings[timing].variants)


def resolve(config: Mapping[str, Any], schema: str | Path, *, gpus: int) -> Settings:
    """Validate a config and resolve it for a machine.

    Args:
        config: as read from YAML.
        schema: path of the JSON schema, in YAML.
        gpus: how many GPUs the runs will find.

    Raises:
        TwinrunError: with one line for each mistake.
    """
    rules = yaml.safe_load(Path(schema).read_text(encoding="utf-8"))
    config, problems = _validate(config, rules)
    if not problems:
        problems = [*_contradictions(config), *_contradictions_of_matrix(config, rules)]
    if not problems and "resume" in config["studies"]:
        problems = list(_contradictions_of_resume(config))
    if not problems:
        problems = list(_contradictions_of_gate(config))
    if problems:
        count = "1 error" if len(problems) == 1 else f"{len(problems)} errors"
        raise TwinrunError(f"{count} in the config:\n" + "\n".join(f"  {p}" for p in problems))
    return _settings(config, gpus)


def _settings(config: dict[str, Any], gpus: int) -> Settings:
    default = config["accelerator"]
    if default == "auto":
        default = "gpu" if gpus else "cpu"
    variants, not_run = {}, {}
    cells = factors.cells(config["matrix"]) if "matrix" in config["studies"] else []
    changed = {
        cell.variant: {**config["variants"][config["matrix"]["baseline"]], **cell.change}
        for cell in cells
    }
    for name, values in {**config["variants"], **changed, **_stopped(config)}.items():
        accelerator = default if values["accelerator"] == "auto" else values["accelerator"]
        variants[name] = Variant(**{**values, "accelerator": accelerator})
        # `accelerator: gpu` at the top is a promise about machines this one may not be.
        promised = math.inf if config["accelerator"] == "gpu" else gpus
        if (reason := _hindrance(variants[name], gpus=promised)) is not None:
            not_run[name] = reason
    settings = Settings(
        config=config,
        studies=config["studies"],
        datasets={name: Dataset(**values) for name, values in config["datasets"].items()},
        workloads={name: Workload(**values) for name, values in config["workloads"].items()},
        variants=variants,
        timings={},
        not_run=not_run,
        trials={},
        cells={cell.name: cell for cell in cells},
    )
    settings.timings.update(_timings(settings))
    for trial, varied, hyperparameters in _trials(config):
        settings.trials[trial] = varied
        workload = settings.workloads[varied]
        settings.workloads[trial] = replace(
            workload,
            hyperparameters={**workload.hyperparameters, **hyperparameters},
            epochs=config["sweep"]["epochs"] or workload.epochs,
        )
    return settings


def _trials(config: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Give each trial's name, the workload that it varies and its hyperparameters.

    The name is made of the values, as those of Snakemake's Paramspace are, so that a trial keeps
    its runs when others are added. (Paramspace itself wants pandas at every start.)
    """
    if "sweep" not in config["studies"]:
        return
    for workload, crossed in product(config["sweep"]["workloads"], config["sweep"]["trials"]):
        columns = [value if isinstance(value, list) else [value] for value in crossed.values()]
        for values in product(*columns):
            pairs = zip(crossed, values, strict=True)
            name = "~".join([workload, *(f"{key}~{_spelt(value)}" for key, value in pairs)])
            yield name, workload, dict(zip(crossed, values, strict=True))


def _spelt(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _stopped(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Give the variants that the study resume makes of its own, with those that it holds whole."""
    if "resume" not in config["studies"]:
        return {}
    asked = config["resume"]
    found = (stops.variants(n, config["variants"][n], asked["stops"]) for n in asked["variants"])
    return {name: values for variants in found for name, values in variants.items()}


def _hindrance(variant: Variant, *, gpus: float) -> str | None:
    """Say why a variant cannot run on this machine."""
    if variant.gpus > gpus:
        return (
            f"needs {variant.gpus} GPUs, this machine has {gpus}"
            if gpus
            else "no GPU on this machine"
        )
    if variant.batch_norm == "synchronised" and not variant.gpus:
        return "synchronised batch normalisation needs GPUs"
    if variant.cuda_graph and not variant.gpus:
        return "a CUDA graph needs a GPU"
    if variant.layout == "features_first" and variant.gpus:
        return "features_first is a layout for CPUs"
    return None


def _timings(settings: Settings) -> Iterator[tuple[str, Timing]]:
    """Name the timings the studies lead to, `<timing>_<workload>`."""
    for study, prefix in TIMINGS.items():
        if study not in settings.studies:
            continue
        asked = settings.config[study]
        variants = [
            name for name in settings.variants_of(study) if settings.variants[name].is_timed
        ]
        # A growth over sizes is worth measuring alone, a ratio takes two.
        if len(variants) < (1 if "sizes" in asked else 2):
            continue
        cost = asked.get("cost", asked)
        options = {key: asked[key] for key in ("size", "sizes") if key in asked}
        for workload in asked["workloads"]:
            yield (
                f"{prefix}_{workload}",
                Timing(
                    workload=workload,
                    variants=variants,
                    phases=PHASES[study],
                    rounds=cost["rounds"],
                    steps=cost["steps"],
                    **options,
                ),
            )


def _validate(
    config: Mapping[str, Any], schema: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Give a copy of the config with defaults, and all its mistakes in the schema's eyes."""
    try:
        copy = _plain(config)
    except RecursionError:
        return {}, ["the config refers to itself (a YAML alias inside its own anchor)"]
    except _NotPlainError as error:
        return {}, [str(error)]
    errors = sorted(_WithDefaults(schema).iter_errors(copy), key=lambda e: [*map(str, e.path)])
    # One sentence names all missing keys of a place: it comes once, not once for each.
    return copy, list(dict.fromkeys(_sentence(error) for error in errors))


class _NotPlainError(Exception):
    """A value that no job could be handed."""


def _plain(value: Any, key: str = "") -> Any:
    """Copy what JSON can say too; YAML also knows dates, sets and values inside themselves."""
    if isinstance(value, Mapping):
        return {str(k): _plain(item, f"{key}.{k}".lstrip(".")) for k, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{key}.{index}") for index, item in enumerate(value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise _NotPlainError(
        f"{key}: {_shown(value)} is of the wrong type: put a text in quotation marks"
    )


def _fill_defaults(
    validate_properties: Callable[..., Iterator[ValidationError]],
) -> Callable[..., Iterator[ValidationError]]:
    """Extend jsonschema as its documentation shows: defaults are set before they are checked."""

    def properties(
        validator: Any, properties: Mapping[str, Any], instance: Any, schema: Mapping[str, Any]
    ) -> Iterator[ValidationError]:
        if isinstance(instance, dict):
            for name, subschema in properties.items():
                if "default" in subschema and name not in instance:
                    instance[name] = _plain(subschema["default"])
        yield from validate_properties(validator, properties, instance, schema)

    return properties


_WithDefaults = validators.extend(
    Draft202012Validator,
    {"properties": _fill_defaults(Draft202012Validator.VALIDATORS["properties"])},
)


def _sentence(error: ValidationError) -> str:
    """Say a schema error in the user's terms: key, value, what is allowed."""
    key = ".".join(map(str, error.absolute_path)) or "the config"
    value, rule = _shown(error.instance), error.validator_value
    match error.validator:
        case "additionalProperties":
            known = list(error.schema.get("properties", {}))
            unknown = [name for name in error.instance if name not in known]
            prefix = "" if key == "the config" else f"{key}."
            return "; ".join(f"{prefix}{n}: unknown key{_near(n, known)}" for n in unknown)
        case "required":
            missing = [name for name in rule if name not in error.instance]
            return f"{key}: the key {', '.join(missing)} is missing"
        case "anyOf":
            return f"{key}: {value} is no number, true, false or word, nor a list of them"
        case "oneOf":
            return f"{key}: needs either `make` or `file`, not both and not neither"
        case "enum":
            near = _near(error.instance, rule, list_all=False)
            return f"{key}: {value} is not one of {', '.join(map(str, rule))}{near}"
        case "type":
            expected = " or ".join([rule] if isinstance(rule, str) else rule)
            return f"{key}: {value} is of the wrong type, expected {expected}"
        case "minimum" | "maximum":
            least, most = error.schema.get("minimum"), error.schema.get("maximum")
            return f"{key}: {value} is out of range, allowed are {least} to {most}"
        case "minItems":
            return f"{key}: the list is empty, name at least one"
        case "uniqueItems":
            return f"{key}: {value} names something twice"
        case "pattern" if rule.startswith("^[A-Za-z][A-Za-z0-9_-]"):
            return (
                f"{key}: {value} is not a name (letters, digits, _ and -, beginning with a letter, "
                f"at most 40)"
            )
        case "pattern" if ":" in rule:
            return f"{key}: {value} is not an import path like package.module:Class"
        case "pattern" if rule.startswith("^(<"):
            return f"{key}: {value} is not a limit like '<= 1.25'"
        case "not":
            return f"{key}: {value} is given by the run and cannot be set"
        case _:
            return f"{key}: {error.message}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _near(name: Any, known: list[str], *, list_all: bool = True) -> str:
    near = difflib.get_close_matches(str(name), list(map(str, known)), n=1)
    if near:
        return f", did you mean {near[0]}?"
    return f"; known: {', '.join(map(str, known))}" if list_all and known else ""


def _contradictions(config: Mapping[str, Any]) -> Iterator[str]:
    """Find what the schema cannot: names that do not exist."""
    for name, workload in config["workloads"].items():
        dataset = workload["dataset"]
        if dataset is not None and dataset not in config["datasets"]:
            known = _near(dataset, list(config["datasets"]))
            yield f"workloads.{name}.dataset: no dataset is called {dataset!r}{known}"
    for name, dataset in config["datasets"].items():
        # os.path: a Path raises on names that no file system takes.
        if "file" in dataset and not os.path.isfile(dataset["file"]):  # noqa: PTH113
            yield f"datasets.{name}.file: {dataset['file']!r} is not a file"
    for name, variant in config["variants"].items():
        yield from (f"variants.{name}.{problem}" for problem in _impossible(variant))
    for study in config["studies"]:
        for key in ("workloads", "variants"):
            for index, name in enumerate(config[study].get(key, [])):
                if name not in config[key]:
                    known = _near(name, list(config[key]))
                    yield f"{study}.{key}.{index}: no {key[:-1]} is called {name!r}{known}"
    if "sweep" in config["studies"]:
        names = [name for name, _, _ in _trials(config)]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"sweep.trials: the trial {name} is there twice"
        for name in names:
            if len(name) > LONGEST_TRIAL:
                yield f"sweep.trials: {name} is too long for a folder's name, vary less at once"


def _impossible(variant: Mapping[str, Any]) -> Iterator[str]:
    """Find settings of a variant that exclude each other."""
    if variant["persistent_workers"] and not variant["data_workers"]:
        yield "persistent_workers: true needs data_workers of 1 or more"
    if variant["accumulate"] > 1 and variant["devices"] > 1:
        yield f"accumulate: {variant['accumulate']} needs devices: 1, not {variant['devices']}"
    if variant["devices"] % variant["nodes"]:
        yield f"nodes: {variant['nodes']} machines cannot evenly share {variant['devices']} workers"
    if variant["stop"] != "none" and variant["devices"] > 1:
        yield f"stop: {variant['stop']} needs devices: 1, not {variant['devices']}"
    if variant["layout"] == "features_first" and variant["compile"] == "none":
        yield "layout: features_first needs `compile: step` or `module`"
    if variant["compile"] == "step" and variant["optimizer"] != "default":
        yield "optimizer: `compile: step` fuses it by itself, leave it out"
    if variant["compile"] != "step" and not variant["cuda_graph"]:
        return
    key = "compile: step" if variant["compile"] == "step" else "cuda_graph: true"
    for name in ("devices", "accumulate"):
        if variant[name] > 1:
            yield f"{name}: {key} takes a step in one piece and needs {name}: 1"
    if variant["precision"] == "16-mixed":
        yield f"precision: 16-mixed scales gradients, for which {key} leaves no room"


def _contradictions_of_resume(config: Mapping[str, Any]) -> Iterator[str]:
    """Find what cannot be stopped: trainings of one epoch, variants that its settings exclude."""
    asked = config["resume"]
    for index, name in enumerate(asked["workloads"]):
        if config["workloads"].get(name, {}).get("epochs") == 1:
            yield f"resume.workloads.{index}: {name} trains 1 epoch, a stop in the second needs 2"
    for index, name in enumerate(asked["variants"]):
        if name in config["variants"]:
            stopped = stops.variants(name, config["variants"][name], asked["stops"])
            problems = dict.fromkeys(p for v in stopped.values() for p in _impossible(v))
            yield from (f"resume.variants.{index}: {problem}" for problem in problems)


def _contradictions_of_matrix(config: Mapping[str, Any], rules: Mapping[str, Any]) -> Iterator[str]:
    """Hold each changed baseline to what is asked of a variant."""
    if "matrix" not in config["studies"]:
        return
    matrix = config["matrix"]
    if matrix["baseline"] not in config["variants"]:
        known = _near(matrix["baseline"], list(config["variants"]))
        yield f"matrix.baseline: no variant is called {matrix['baseline']!r}{known}"
        return
    schema = {"$defs": rules["$defs"], **rules["properties"]["variants"]["additionalProperties"]}
    baseline = config["variants"][matrix["baseline"]]
    for index, change in enumerate(matrix["changes"]):
        found = [_sentence(error) for error in _WithDefaults(schema).iter_errors(_plain(change))]
        found = found or list(_impossible({**baseline, **change}))
        yield from (f"matrix.changes.{index}.{problem}" for problem in found)
    yield from factors.contradictions(config)


def _contradictions_of_gate(config: Mapping[str, Any]) -> Iterator[str]:
    """Find requirements about what is not in the config."""
    repeated = config["reproducibility"]["variants"]
    studies = {f"{variant}_pair": "reproducibility" for variant in repeated} | {
        "determinism_cost": "reproducibility",
        "fingerprint": "reproducibility",
        "resume": "resume",
        "matrix": "matrix",
    }
    for name, wanted in config["require"].items():
        if name not in studies:
            yield f"require.{name}: unknown key{_near(name, list(studies))}"
        elif studies[name] not in config["studies"]:
            yield f"require.{name}: needs the study {studies[name]}, add it to studies"
        elif name == "matrix":
            known = [cell.name for cell in factors.cells(config["matrix"])]
            for index, cell in enumerate(wanted):
                if cell not in known:
                    yield f"require.matrix.{index}: no cell is called {cell!r}{_near(cell, known)}"
        elif name == "fingerprint" and not any(
            config["variants"][variant]["deterministic"] for variant in repeated
        ):
            yield "require.fingerprint: no variant of reproducibility is deterministic"
