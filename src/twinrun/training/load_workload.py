"""From the import paths of a workload to its module and data module.

Hyperparameters are one flat mapping: each goes to whichever of the two constructors names it, to
both if both do, and one that neither names is an error. The data module is also given `path` (its
dataset's file), `seed` (the run's) and `data_workers` (the variant's), where its constructor names
them.
"""

import difflib
import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import pytorch_lightning as pl

from twinrun import artifacts
from twinrun.config.definitions import Workload
from twinrun.errors import TwinrunError
from twinrun.process.import_path import import_object
from twinrun.training.unsupported import wrong_package

GIVEN = (
    "path",
    "seed",
    "data_workers",
)  # arguments of a data module that come from the run, not from the config


def load_workload(
    workload: Workload, search_path: Sequence[str] = ()
) -> tuple[type, type, dict[str, Any], dict[str, Any]]:
    """Import a workload's two classes and share out its hyperparameters.

    Returns:
        The LightningModule class, the LightningDataModule class, and the keyword arguments of each.

    Raises:
        TwinrunError: for a failed import, a wrong base class, an unknown or a missing
            hyperparameter.
    """
    module_class = import_object(workload.module, search_path)
    data_class = import_object(workload.data, search_path)
    for key, found, base in (
        ("module", module_class, pl.LightningModule),
        ("data", data_class, pl.LightningDataModule),
    ):
        if not (inspect.isclass(found) and issubclass(found, base)):
            raise TwinrunError(
                f"{key}: {getattr(workload, key)} is no pytorch_lightning.{base.__name__}"
                f"{wrong_package(found)}"
            )
    module_names, data_names = _parameters(module_class), _parameters(data_class)
    hyperparameters = workload.hyperparameters
    known = sorted((set(module_names) | set(data_names)) - set(GIVEN))
    for name in hyperparameters:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f", did you mean {near[0]}?" if near else f"; known: {', '.join(known)}"
            raise TwinrunError(
                f"hyperparameters.{name}: neither {workload.module} nor {workload.data} "
                f"takes it{hint}"
            )
    given = (*GIVEN, *hyperparameters)
    for source, parameters, names in (
        (workload.module, module_names, hyperparameters),
        (workload.data, data_names, given),
    ):
        for name, parameter in parameters.items():
            if parameter.default is inspect.Parameter.empty and name not in names:
                raise TwinrunError(f"hyperparameters.{name}: {source} needs it and has no default")
    return (
        module_class,
        data_class,
        {k: v for k, v in hyperparameters.items() if k in module_names},
        {k: v for k, v in hyperparameters.items() if k in data_names},
    )


def check_workloads(workloads: Mapping[str, Workload], search_path: Sequence[str] = ()) -> None:
    """Import and match every workload without constructing it, and raise all mistakes at once.

    Raises:
        TwinrunError: with one line for each workload that cannot be built.
    """
    problems = []
    for name, workload in workloads.items():
        try:
            load_workload(workload, search_path)
        except TwinrunError as error:
            problems.append(f"  workloads.{name}.{error}")
    if problems:
        raise TwinrunError("the config's workloads cannot be built:\n" + "\n".join(problems))


def build_module(workload: Workload, search_path: Sequence[str] = ()) -> pl.LightningModule:
    """Construct the workload's LightningModule; its weights come from the generators as they are.

    Raises:
        TwinrunError: see `load_workload`; also if the constructor raises.
    """
    module_class, _, arguments, _ = load_workload(workload, search_path)
    return _construct(module_class, workload.module, arguments)


def build_data(
    workload: Workload,
    *,
    seed: int,
    dataset_path: str | None,
    data_workers: int = 0,
    persistent_workers: bool = False,
    search_path: Sequence[str] = (),
) -> pl.LightningDataModule:
    """Construct the workload's LightningDataModule; have its training loader keep its workers.

    Raises:
        TwinrunError: see `load_workload`; also if the constructor raises or takes no `path`
            although the workload names a dataset, or if the dataset's file is corrupt.
    """
    _, data_class, _, arguments = load_workload(workload, search_path)
    names = _parameters(data_class)
    if dataset_path and "path" not in names:
        raise TwinrunError(
            f"dataset: {workload.data} takes no argument `path` to be given the dataset's file"
        )
    if data_workers and "data_workers" not in names:
        raise TwinrunError(
            f"data_workers: the variant wants {data_workers}, but {workload.data} takes no "
            f"argument `data_workers`"
        )
    if dataset_path:
        artifacts.check_dataset(dataset_path)
    given = {"path": dataset_path, "seed": seed, "data_workers": data_workers}
    arguments |= {
        name: value for name, value in given.items() if name in names and value is not None
    }
    data = _construct(data_class, workload.data, arguments)
    if persistent_workers:
        _keep_workers(data)
    return data


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


def _parameters(constructed: type) -> dict[str, inspect.Parameter]:
    """Name the constructor's parameters, following `**kwargs` up to the base class before torch."""
    found: dict[str, inspect.Parameter] = {}
    for base in constructed.__mro__:
        if base.__module__.split(".")[0] in {"pytorch_lightning", "lightning", "torch"}:
            break
        if "__init__" not in vars(base):
            continue
        parameters = list(inspect.signature(base.__init__).parameters.values())[1:]
        named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        found.update({p.name: p for p in named if p.name not in found})
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return found


def _construct(constructed: type, source: str, arguments: Mapping[str, Any]) -> Any:
    try:
        return constructed(**arguments)
    except Exception as error:  # a user's constructor may raise anything
        raise TwinrunError(
            f"{source}: constructing it with {dict(arguments)} failed with "
            f"{type(error).__name__}: {error}"
        ) from error
