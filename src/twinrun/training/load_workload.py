"""From the import paths of a workload to its module and data module.

Hyperparameters are one flat mapping: each goes to the constructor that names it, to both if both
do. One that neither names goes to a constructor with `**kwargs`, unless it looks like a misspelt
one, and is an error where there is none. The data module is also given its dataset's file, the
run's seed and the variant's data workers, under the names of `from_run` and where its constructor
names them. A function that returns a module or a data module stands for a constructor.
"""

import difflib
import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, TypeVar

import pytorch_lightning as pl

from twinrun.config.definitions import Workload
from twinrun.dataset_files import check_dataset
from twinrun.errors import TwinrunError
from twinrun.process.import_path import import_object
from twinrun.training.constructors import (
    Constructor,
    Parameters,
    arguments_of,
    takes_any,
)
from twinrun.training.unsupported import wrong_package
from twinrun.wording import shown, suggestion

SLIP = 0.8  # how alike two names are, in difflib's measure, of which one is likely misspelt

Built = TypeVar("Built")


def load_workload(
    workload: Workload, search_path: Sequence[str] = ()
) -> tuple[
    Constructor[pl.LightningModule],
    Constructor[pl.LightningDataModule],
    dict[str, Any],
    dict[str, Any],
]:
    """Import a workload's two constructors and divide its hyperparameters between them.

    Returns:
        The LightningModule's, the LightningDataModule's, and the keyword arguments of each.

    Raises:
        TwinrunError: for a failed import, a wrong base class, an unknown or a missing
            hyperparameter; the first of them.
    """
    module = load_constructor(workload, "module", pl.LightningModule, search_path)
    data = load_constructor(workload, "data", pl.LightningDataModule, search_path)
    takers = takers_of(workload, module, data)
    for mistake in mistakes(workload, takers):
        raise TwinrunError(mistake)
    given, of_run = workload.hyperparameters, given_by_run(workload).values()
    named = {name for taken in takers.values() for name in taken}

    def goes_to(taken: Parameters, name: str) -> bool:
        return name in taken or (name not in named and takes_any(taken))

    of_module, of_data = (takers[path] for path in (workload.module, workload.data))
    return (
        module,
        data,
        {k: v for k, v in given.items() if goes_to(of_module, k)},
        {k: v for k, v in given.items() if goes_to(of_data, k) and k not in of_run},
    )


def given_by_run(workload: Workload) -> dict[str, str]:
    """Name the arguments of the data module that come from the run, by what they are given.

    Without a dataset a path is the data module's own, if the config gives one.
    """
    names = {what: name for what, name in asdict(workload.from_run).items() if name is not None}
    if workload.dataset is None and names.get("path") in workload.hyperparameters:
        del names["path"]
    return names


def taken_from_run(workload: Workload, of_data: Parameters) -> dict[str, str]:
    """Return those of `given_by_run` that the data module takes.

    A name that the config gives may be among arguments that a constructor does not name.
    """
    return {
        what: name
        for what, name in given_by_run(workload).items()
        if name in of_data or (name != what and takes_any(of_data))
    }


def not_taken(workload: Workload, what: Literal["path", "seed", "data_workers"]) -> str:
    """Say that a data module is not given what a run would give it, and why."""
    name = getattr(workload.from_run, what)
    if name is None:
        return f"{workload.data} is not given it (from_run.{what}: null)"
    return f"{workload.data} takes no argument `{name}`"


def load_constructor(
    workload: Workload, key: str, base: type[Built], search_path: Sequence[str] = ()
) -> Constructor[Built]:
    """Import one of a workload's classes, or the function that returns an object of it.

    Args:
        workload: of which.
        key: `module` or `data`.
        base: what the class must be derived from.
        search_path: folders with the user's own modules.

    Raises:
        TwinrunError: if it cannot be imported or is neither.
    """
    path = getattr(workload, key)
    try:
        found = import_object(path, search_path)
    except TwinrunError as error:
        raise TwinrunError(f"{key}: {error}") from error
    # A subclass of the package `lightning` is none: the same code, but another class.
    if inspect.isclass(found) and issubclass(found, base):
        return found
    if inspect.isroutine(found):  # what it returns is looked at when it is called
        return found
    name = f"pytorch_lightning.{base.__name__}"
    if isinstance(found, base):
        raise TwinrunError(f"{key}: {path} is an object, where the class of it is needed")
    raise TwinrunError(f"{key}: {path} is no {name}{wrong_package(found)}")


def takers_of(
    workload: Workload,
    module: Constructor[pl.LightningModule],
    data: Constructor[pl.LightningDataModule],
) -> dict[str, Parameters]:
    """Return the parameters of both constructors, by their import paths."""
    return {
        workload.module: arguments_of(module),
        workload.data: arguments_of(data),
    }


def mistakes(workload: Workload, takers: Mapping[str, Parameters]) -> Iterator[str]:
    """Yield a sentence for each hyperparameter that nobody takes, or that is missing.

    Args:
        workload: with hyperparameters as the config has them.
        takers: the parameters of each constructor, by its import path.
    """
    hyperparameters, given_names = workload.hyperparameters, given_by_run(workload)
    of_run = given_names.values()
    named = {
        path: {n for n, p in taken.items() if p.kind is not p.VAR_KEYWORD}
        for path, taken in takers.items()
    }
    # Of the data module's own, those that the run gives cannot be set.
    known = sorted(named[workload.module] | (named[workload.data] - {*of_run}))
    for name in hyperparameters:
        if name in known:
            continue
        if name in named[workload.data]:
            what = next(what for what, given in given_names.items() if given == name)
            yield (
                f"hyperparameters.{name}: {shown(name)} of {workload.data} is given by the run and "
                f"cannot be set; say `from_run: {{{what}: null}}` to give it yourself"
            )
        elif difflib.get_close_matches(name, known, 1, SLIP) or not any(
            map(takes_any, takers.values())
        ):
            yield (
                f"hyperparameters.{name}: neither {' nor '.join(takers)} takes it"
                f"{suggestion(name, known)}"
            )
    of_data = takers[workload.data]
    for what, name in given_names.items():
        if name != what and not (name in of_data or takes_any(of_data)):
            yield (
                f"from_run.{what}: {workload.data} takes no argument {shown(name)}"
                f"{suggestion(name, list(of_data))}"
            )
    for source, parameters in takers.items():
        given = {*hyperparameters, *(of_run if source == workload.data else ())}
        for name, parameter in parameters.items():
            is_needed = name in named[source] and parameter.default is parameter.empty
            if is_needed and name not in given:
                yield f"hyperparameters.{name}: {source} needs it and has no default"


def build_module(workload: Workload, search_path: Sequence[str] = ()) -> pl.LightningModule:
    """Construct the workload's LightningModule; its weights come from the generators as they are.

    Raises:
        TwinrunError: see `load_workload`; also if the constructor raises.
    """
    module_class, _, given, _ = load_workload(workload, search_path)
    return _construct(module_class, pl.LightningModule, workload.module, given)


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
    _, data_class, _, given = load_workload(workload, search_path)
    names = taken_from_run(workload, arguments_of(data_class))
    if dataset_path and "path" not in names:
        raise TwinrunError(
            f"dataset: {not_taken(workload, 'path')}, which is to be the dataset's file"
        )
    if data_workers and "data_workers" not in names:
        raise TwinrunError(
            f"data_workers: the variant wants {data_workers}, but "
            f"{not_taken(workload, 'data_workers')}"
        )
    if dataset_path:
        check_dataset(dataset_path)
    of_run = {"path": dataset_path, "seed": seed, "data_workers": data_workers}
    given |= {
        names[what]: value for what, value in of_run.items() if what in names and value is not None
    }
    data = _construct(data_class, pl.LightningDataModule, workload.data, given)
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


def _construct(
    constructed: Constructor[Built], base: type[Built], source: str, given: Mapping[str, object]
) -> Built:
    try:
        built = constructed(**given)
    except Exception as error:  # a user's constructor may raise anything
        raise TwinrunError(
            f"{source}: constructing it with {shown(dict(given))} failed with "
            f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(built, base):
        what = "None" if built is None else f"a {type(built).__name__}"
        raise TwinrunError(
            f"{source}: it returned {what}, where a pytorch_lightning.{base.__name__} is "
            f"needed{wrong_package(type(built))}"
        )
    return built
