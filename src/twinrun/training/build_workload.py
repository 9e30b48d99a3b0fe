"""A workload's module and data module, constructed as a run does it.

Where the config names no data module, the module brings its loaders, and a data module hands them
on: what surrounds a training (shards, few batches, timings) asks a data module for them.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import pytorch_lightning as pl
from lightning_fabric.utilities.seed import _collect_rng_states
from pytorch_lightning.utilities.model_helpers import is_overridden

from twinrun.config.definitions import Workload
from twinrun.dataset_files import check_dataset
from twinrun.errors import TwinrunError
from twinrun.process.import_record import from_start
from twinrun.training.constructors import Constructor, arguments_of
from twinrun.training.lightning_command import (
    bring_optimizer,
    wrong_optimizer,
)
from twinrun.training.load_workload import (
    load_workload,
    not_taken,
    taken_from_run,
)
from twinrun.training.objects import wrong
from twinrun.training.planned import Planned
from twinrun.training.trainer_objects import bring_callbacks, made_first, wrong_in_trainer

PHASES = ("train", "val", "test", "predict")


@dataclass(frozen=True, kw_only=True)
class OfRun:
    """What a run gives to the constructor that makes the data."""

    seed: int | None = None
    """Its seed."""
    path: str | None = None
    """The file of its dataset."""
    data_workers: int = 0
    """The variant's processes that prepare batches."""


def build_module(
    workload: Workload, search_path: Sequence[str] = (), of_run: OfRun | None = None
) -> pl.LightningModule:
    """Construct the workload's LightningModule; its weights come from the generators as they are.

    Args:
        workload: of which.
        search_path: folders with the user's own modules.
        of_run: what the run gives; a module beside a data module takes none of it.

    Raises:
        TwinrunError: see `load_workload`; also if the constructor raises, or takes no `path` or
            `data_workers` although the run has them, or if the dataset's file is corrupt.
    """
    planned = _planned_module(workload, search_path, of_run or OfRun())
    return _made_module(workload, planned, _made_first(workload))


def build_data(
    workload: Workload,
    of_run: OfRun,
    *,
    search_path: Sequence[str] = (),
    persistent_workers: bool = False,
    module: pl.LightningModule | None = None,
) -> pl.LightningDataModule:
    """Construct the workload's LightningDataModule; have its training loader keep its workers.

    Args:
        workload: of which.
        of_run: what the run gives.
        search_path: folders with the user's own modules.
        persistent_workers: keep them from epoch to epoch.
        module: what brings the loaders of a workload without a data module.

    Raises:
        TwinrunError: as `build_module`.
    """
    if workload.data is None:
        if module is None:
            raise ValueError("a workload without a data module needs its module")
        data = _loaders_of(module)
    else:
        data = _planned_data(workload, search_path, of_run).make()
    if persistent_workers:
        _keep_workers(data)
    return data


class Built(NamedTuple):
    """What is trained, and on what."""

    module: pl.LightningModule
    """The user's, with what its config brings along."""
    data: pl.LightningDataModule
    """The user's, or one with the loaders that the module brings."""
    generators: dict[str, Any]
    """States of the random generators that the module was constructed from."""


def build_both(
    workload: Workload,
    of_run: OfRun,
    *,
    search_path: Sequence[str] = (),
    persistent_workers: bool = False,
) -> Built:
    """Construct data module and module in the order in which a run does it.

    Args:
        workload: of which.
        of_run: what the run gives.
        search_path: folders with the user's own modules.
        persistent_workers: have the training loader keep them from epoch to epoch.

    Raises:
        TwinrunError: as `build_module`.
    """
    module = _planned_module(workload, search_path, of_run)
    data = None if workload.data is None else _planned_data(workload, search_path, of_run)
    callbacks, generators = _made_first(workload), None
    for step in _order(workload):
        plan = module if step.startswith("module") else data
        if plan is module and generators is None:
            generators = _collect_rng_states()
        if plan is not None:
            plan.make_arguments()
            if not step.endswith("arguments"):
                plan.make()
    built = _made_module(workload, module, callbacks)
    of_data = _loaders_of(built) if data is None else data.make()
    if persistent_workers:
        _keep_workers(of_data)
    return Built(built, of_data, generators or {})


def _order(workload: Workload) -> list[str]:
    """Say what is made after what: each may draw from the generators that all share."""
    command = workload.cli
    if command is None:
        return ["data", "module"]
    # jsonargparse makes what lies deepest first, and what a class path names before what it does
    # not: the arguments of a class that the command has are then made before anything else.
    fixed = [key for key in ("module", "data") if key in command.of_one_class]
    named = [key for key in ("module", "data") if key not in fixed]
    return [*(f"{key}'s arguments" for key in fixed), *named, *fixed]


def import_workload(workload: Workload, search_path: Sequence[str] = ()) -> None:
    """Import the constructors of a workload, and the classes that its arguments name.

    Raises:
        TwinrunError: as `load_workload`.
    """
    # Whether a value suits its annotation is known only of a class that is imported.
    for _ in wrong_values(workload, search_path):
        pass


def wrong_values(workload: Workload, search_path: Sequence[str] = ()) -> Iterator[str]:
    """Yield a sentence for each value that its argument's annotation does not allow."""
    module, data, of_module, of_data = load_workload(workload, search_path)
    yield from wrong_in_trainer(workload.trainer)
    command = workload.cli
    if command is not None:
        yield from wrong_optimizer(command)
    for section, constructor, given in (("model", module, of_module), ("data", data, of_data)):
        if constructor is not None:
            for name, reason in wrong(constructor, given, is_all=command is not None):
                key = "hyperparameters"
                if command is not None and name not in workload.hyperparameters:
                    key = f"cli: {command.file}: {section}"
                yield f"{key}.{name}: {reason}"


def _from_run(
    workload: Workload, constructor: Constructor[object], of_run: OfRun
) -> dict[str, object]:
    """Return the arguments that come from the run."""
    names = taken_from_run(workload, arguments_of(constructor))
    if of_run.path and "path" not in names:
        raise TwinrunError(
            f"dataset: {not_taken(workload, 'path')}, which is to be the dataset's file"
        )
    if of_run.data_workers and "data_workers" not in names:
        raise TwinrunError(
            f"data_workers: the variant wants {of_run.data_workers}, but "
            f"{not_taken(workload, 'data_workers')}"
        )
    if of_run.path:
        check_dataset(from_start(of_run.path))
    given = {**asdict(of_run), "path": of_run.path and from_start(of_run.path)}
    values = {names[what]: value for what, value in given.items() if what in names}
    return {name: value for name, value in values.items() if value is not None}


def _loaders_of(module: pl.LightningModule) -> pl.LightningDataModule:
    """Return a data module that hands on the loaders that a module brings.

    It asks the module that is trained, which in a timing is a copy.

    Raises:
        TwinrunError: for a loader in the place of a method.
    """

    def handed_on(hook: str) -> Callable[[pl.LightningDataModule], object]:
        def loaders(self: pl.LightningDataModule) -> object:
            if self.trainer is None:
                raise RuntimeError(f"{hook} needs the Trainer of the module")
            return getattr(self.trainer.lightning_module, hook)()

        return loaders

    hooks = [f"{phase}_dataloader" for phase in PHASES]
    for hook in hooks:
        given = getattr(module, hook)
        if given is not None and not callable(given):
            raise TwinrunError(
                f"module: {hook} of {type(module).__name__} is a {type(given).__name__}, where "
                f"Lightning calls a method; have one return it, def {hook}(self): ..."
            )
    # Lightning asks a class which hooks it has.
    own = {
        hook: handed_on(hook) for hook in hooks if is_overridden(hook, module, pl.LightningModule)
    }
    kind = type(type(module).__name__, (pl.LightningDataModule,), own)
    return kind()


def _keep_workers(data: pl.LightningDataModule) -> None:
    """Have the training loader keep its workers from epoch to epoch."""
    original = data.train_dataloader

    @functools.wraps(original)
    def train_dataloader() -> Any:
        loader = original()
        # DataLoader refuses this by assignment, for fear that its workers have started.
        object.__setattr__(loader, "persistent_workers", True)
        return loader

    data.train_dataloader = train_dataloader


def _planned_module(
    workload: Workload, search_path: Sequence[str], of_run: OfRun
) -> Planned[pl.LightningModule]:
    constructor, _, given, _ = load_workload(workload, search_path)
    if workload.data is None:
        given |= _from_run(workload, constructor, of_run)
    is_all = workload.cli is not None
    return Planned(constructor, pl.LightningModule, workload.module, given, is_all=is_all)


def _made_first(workload: Workload) -> list[pl.Callback]:
    return [] if workload.cli is None else made_first(workload.trainer)


def _made_module(
    workload: Workload, planned: Planned[pl.LightningModule], callbacks: Sequence[pl.Callback]
) -> pl.LightningModule:
    """Return the module with what its config brings along."""
    module = planned.make()
    bring_callbacks(module, workload.trainer, callbacks)
    if workload.cli is not None:
        bring_optimizer(module, workload.cli)
    return module


def _planned_data(
    workload: Workload, search_path: Sequence[str], of_run: OfRun
) -> Planned[pl.LightningDataModule]:
    _, constructor, _, given = load_workload(workload, search_path)
    if constructor is None or workload.data is None:
        raise ValueError("unreachable: a data module that is named is imported")
    given |= _from_run(workload, constructor, of_run)
    is_all = workload.cli is not None
    return Planned(constructor, pl.LightningDataModule, workload.data, given, is_all=is_all)
