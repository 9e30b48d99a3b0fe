"""The validated configuration as frozen dataclasses; all config errors at once.

`resolve` checks a config against the schema, which also holds every default, then what a schema
cannot say (names that must exist, arguments that contradict each other), and raises one error with
a line for each mistake. What `accelerator: auto` means and which variants this machine cannot run
is decided here, so that the workflow asks for no run that could not start.
"""

import difflib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator, ValidationError, validators

from twinrun import stops
from twinrun.jobs import TwinrunError

# What the timings of a study are called; a workload's name follows.
TIMINGS = {
    "reproducibility": "determinism",
    "devices": "devices",
    "acceleration": "acceleration",
}


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
    sharing: str
    """How workers share the data: `canonical` or `partitioned`."""
    scale_batch_with_devices: bool
    """Mini-batches as many times larger as there are workers."""
    batch_norm: str
    """How workers join the statistics: `joined` or `synchronised`."""
    compile: str
    """`none`, or `module`: its steps compiled."""
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
        """What a run needs."""
        return self.devices * self.threads

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
    """Of `train` and `predict`; `first_call` is always measured."""
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

    def variants_of(self, study: str) -> list[str]:
        """Name the variants of a study that can run here."""
        return [name for name in self.config[study]["variants"] if name not in self.not_run]

    def timings_of(self, study: str) -> list[str]:
        """Name the timings of a study."""
        if study not in TIMINGS:
            return []
        names = [f"{TIMINGS[study]}_{workload}" for workload in self.config[study]["workloads"]]
        return [name for name in names if name in self.timings]

    def active_workloads(self) -> list[str]:
        """Name the workloads of the chosen studies."""
        named = [name for study in self.studies for name in self.config[study]["workloads"]]
        return list(dict.fromkeys(named))

    def stops_of(self, variant: str) -> list[dict[str, str]]:
        """Give the pairs of variants by which the study resume examines a variant."""
        return stops.pairs(variant, self.config["resume"]["stops"])

    def not_run_of(self, study: str) -> dict[str, str]:
        """Name the variants of a study that cannot run here, and why."""
        names = self.config[study]["variants"]
        return {name: self.not_run[name] for name in names if name in self.not_run}

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
        problems = list(_contradictions(config))
    if problems:
        count = "1 error" if len(problems) == 1 else f"{len(problems)} errors"
        raise TwinrunError(f"{count} in the config:\n" + "\n".join(f"  {p}" for p in problems))
    return _settings(config, gpus)


def _settings(config: dict[str, Any], gpus: int) -> Settings:
    default = config["accelerator"]
    if default == "auto":
        default = "gpu" if gpus else "cpu"
    variants, not_run = {}, {}
    for name, values in {**config["variants"], **_stopped(config)}.items():
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
    )
    settings.timings.update(_timings(settings))
    return settings


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
                    phases=["train", "predict"] if study == "acceleration" else ["train"],
                    rounds=cost["rounds"],
                    steps=cost["steps"],
                    **options,
                ),
            )


def _validate(
    config: Mapping[str, Any], schema: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Give a copy of the config with defaults, and all its mistakes in the schema's eyes."""
    copy = _plain(config)
    errors = sorted(_WithDefaults(schema).iter_errors(copy), key=lambda e: [*map(str, e.path)])
    # One sentence names all missing keys of a place: it comes once, not once for each.
    return copy, list(dict.fromkeys(_sentence(error) for error in errors))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


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
        case "pattern" if rule == "^[A-Za-z][A-Za-z0-9_-]{0,39}$":
            return (
                f"{key}: {value} is not a name (letters, digits, _ and -, beginning with a letter, "
                f"at most 40)"
            )
        case "pattern" if rule.endswith(":[A-Za-z_][A-Za-z0-9_]*$"):
            return f"{key}: {value} is not an import path like package.module:Class"
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
        if "file" in dataset and not Path(dataset["file"]).is_file():
            yield f"datasets.{name}.file: {dataset['file']!r} is not a file"
    for study in config["studies"]:
        for key in ("workloads", "variants"):
            for index, name in enumerate(config[study].get(key, [])):
                if name not in config[key]:
                    known = _near(name, list(config[key]))
                    yield f"{study}.{key}.{index}: no {key[:-1]} is called {name!r}{known}"
