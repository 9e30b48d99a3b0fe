"""What a config defines: datasets, workloads, variants, timings, and what one run is made of.

Frozen dataclasses on both sides of every process border: `launching` writes them as JSON, rebuilt
by the signature of the function that it calls. Nothing is resolved here (see `settings`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from twinrun.config.traced_steps import TracedSteps, TraceSetting, traced_steps
from twinrun.config.trainer_arguments import TrainerArguments

Section: TypeAlias = Mapping[str, Any]
"""A part of a config as YAML gives it: the schema says what it holds, not a type."""


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
class FromRun:
    """What a data module calls the arguments that a run gives it; None for one that it does not."""

    path: str | None = "path"
    """The file of the dataset."""
    seed: str | None = "seed"
    """The seed of the run."""
    data_workers: str | None = "data_workers"
    """The variant's processes that prepare batches."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """What a config of LightningCLI says that no other workload does."""

    file: str
    """Its path."""
    model: Mapping[str, Any]
    """Keyword arguments of the module alone."""
    data: Mapping[str, Any]
    """Of the data module alone."""
    of_one_class: list[str] = field(default_factory=list)
    """Of `module` and `data`, those whose class the command has and the file does not name."""
    optimizer: Mapping[str, Any] | None = None
    """By its class; in the place of the module's own `configure_optimizers`."""
    lr_scheduler: Mapping[str, Any] | None = None
    """Likewise."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A LightningModule, a LightningDataModule if there is one, and their hyperparameters."""

    module: str
    """Import path of the LightningModule, or of a function that returns one."""
    data: str | None = None
    """Of the LightningDataModule; None where the module brings its own loaders."""
    dataset: str | None
    """Name of its dataset."""
    hyperparameters: Mapping[str, Any]
    """Keyword arguments of the two constructors."""
    epochs: int
    """Epochs of training; -1 where `trainer.max_steps` alone ends it."""
    trainer: TrainerArguments = field(default_factory=TrainerArguments)
    """What Lightning's Trainer is told of what is trained."""
    from_run: FromRun = FromRun()
    """The names of what the data module is given by each run."""
    cli: Command | None = None
    """Of a config of LightningCLI."""
    test: bool = True
    """Whether a trained network is tested, where module and data module can."""
    predict: bool = True
    """Whether it predicts, where they can."""

    def with_hyperparameter(self, name: str | None, value: object) -> "Workload":
        """Return the workload with a hyperparameter of another value; without a name, itself."""
        if name is None:
            return self
        return replace(self, hyperparameters={**self.hyperparameters, name: value})


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
    sharding: str
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
    """Keep the data workers from epoch to epoch; torch then shuffles further epochs otherwise."""
    accumulate: int
    """Micro-batches that each mini-batch is cut into; their gradients are accumulated."""
    validation: bool
    """Validate while training."""
    checkpointing: bool
    """Write Lightning's checkpoints while training."""
    logging: bool
    """Show Lightning's progress bar and write its logger."""
    environment: Mapping[str, str]
    """Environment variables of the run's fresh process."""
    stop: str
    """Where the training is stopped, to be resumed by a second process: see `interrupt`."""
    resume: str
    """From whose checkpoint it is resumed: `lightning` or `twinrun`."""
    trace: TraceSetting
    """Which steps are traced; None for none."""

    @property
    def cores(self) -> int:
        """What a run needs, on each of its nodes."""
        return self.devices // self.nodes * self.threads

    @property
    def gpus(self) -> int:
        """What a run needs."""
        return self.devices if self.accelerator == "gpu" else 0

    @property
    def traced(self) -> TracedSteps:
        """The steps that are traced."""
        return traced_steps(self.trace)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Variants of one workload to be measured in turn; the first is the baseline."""

    workload: str
    """Name of the workload."""
    variants: list[str]
    """Names of the variants; the first is the baseline."""
    rounds: int
    """How often each variant has its turn."""
    steps: int
    """Steps in a round of one variant, at least: short ones are repeated (see `timed_variant`)."""
    phases: list[str]
    """Of `train`, `trainer` and `predict`; `transfer` and `first_call` are always measured."""
    size: str | None = None
    """The hyperparameter that takes the values of `sizes` in turn."""
    sizes: list[int] = field(default_factory=list)
    """Its values; empty where the workload is measured as it is."""


@dataclass(frozen=True, kw_only=True)
class TimingFiles:
    """Paths of what a timing leaves."""

    rounds: str
    """Every round, as CSV."""
    summary: str
    """What follows from them, as JSON."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Which run it is; its folder in results/runs/."""

    workload: str
    """Its name in the config."""
    variant: str
    """Its name in the config."""
    seed: int
    """The seed of data, initial parameters and training."""
    repeat: int
    """Counts runs that should be identical, from 1."""
    perturbation: int = 0
    """By which number one weight is chosen whose last place is changed by one; 0 changes none."""

    @property
    def label(self) -> str:
        """Name the run as its folder is named."""
        ulp = f"-ulp{self.perturbation}" if self.perturbation else ""
        return f"{self.workload}/{self.variant}/seed{self.seed}{ulp}/repeat{self.repeat}"


@dataclass(frozen=True, kw_only=True)
class Training:
    """What a training is made of; two processes that are given the same should end the same."""

    workload: Workload
    """What is trained."""
    variant: Variant
    """How it is trained."""
    seed: int
    """The seed of data, initial parameters and training."""
    dataset: str | None
    """Path of the dataset's file."""
    search_path: list[str]
    """Folders with the user's own modules."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What the runs of a comparison are made of, whatever their seed."""

    workload: Workload
    """What is trained."""
    variant: Variant
    """How it is trained."""
    dataset: str | None
    """As of a `Training`."""
    search_path: list[str]
    """Likewise."""

    def of_seed(self, seed: int) -> Training:
        """Return what the runs of a seed are made of."""
        return Training(
            workload=self.workload,
            variant=self.variant,
            seed=seed,
            dataset=self.dataset,
            search_path=self.search_path,
        )


@dataclass(frozen=True, kw_only=True)
class RunFiles:
    """Paths of what a run leaves."""

    weights: str
    """Last parameters and buffers, as safetensors."""
    steps: str
    """A row for each step: loss and fingerprints, as CSV."""
    epochs: str
    """A row for each epoch: what was logged, as CSV."""
    fingerprints: str
    """Fingerprints of single tensors and samples, as npz."""
    predictions: str
    """Predictions on the prediction data, as safetensors."""
    manifest: str
    """Where the run comes from and how it ended: run.json."""
    checksums: str
    """SHA-256 of each of the others."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training to be done, and where its files go."""

    identity: Identity
    """Which run it is."""
    training: Training
    """What it trains."""
    source_sha256: str
    """Hash of the code that the run depends on; part of what makes a pair."""
    imports: str
    """What has become of the code that an earlier attempt imported: see `import_log`."""
    files: RunFiles
    """Where its results go."""
    checkpoints: str
    """Folder for the last checkpoint, until the run is finished."""
    checkpoint_minutes: float
    """At least these lie between two checkpoints."""
