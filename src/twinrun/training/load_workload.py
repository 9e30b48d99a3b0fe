"""From the import paths of a workload to its module and data module.

Hyperparameters are one flat mapping: each goes to the constructor that names it, to both if both
do. One that neither names goes to a constructor with `**kwargs`, unless it looks like a misspelt
one, and is an error where there is none. The data module, or without one the module, is also
given its dataset's file, the run's seed and the variant's data workers, under the names of
`from_run` and where its constructor names them. A function that returns a module or a data module
stands for a constructor.
"""

import difflib
import functools
import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, TypeVar

import pytorch_lightning as pl
import torch

from twinrun.config.definitions import Workload
from twinrun.config.keys import with_keys
from twinrun.errors import TwinrunError
from twinrun.process.import_path import import_object
from twinrun.training.constructors import (
    Constructor,
    Parameters,
    arguments_of,
    takes_any,
)
from twinrun.training.unsupported import wrong_package
from twinrun.wording import shown, some, suggestion

NOT_LINKED = (
    "does not say what your command links (link_arguments): write it under `hyperparameters`, "
    "beside `cli`"
)
OR_DATASET = "; give it there, or as the file of a `dataset` of the workload"
SLIP = 0.8  # how alike two names are, in difflib's measure, of which one is likely misspelt

Built = TypeVar("Built")


def load_workload(
    workload: Workload, search_path: Sequence[str] = ()
) -> tuple[
    Constructor[pl.LightningModule],
    Constructor[pl.LightningDataModule] | None,
    dict[str, Any],
    dict[str, Any],
]:
    """Import a workload's two constructors and divide its hyperparameters between them.

    Returns:
        The LightningModule's, the LightningDataModule's if there is one, and the keyword arguments
        of each, as YAML gives them.

    Raises:
        TwinrunError: for a failed import, a wrong base class, an unknown or a missing
            hyperparameter; the first of them.
    """
    module = load_constructor(workload, "module", pl.LightningModule, search_path)
    data = None
    if workload.data is not None:
        data = load_constructor(workload, "data", pl.LightningDataModule, search_path)
    takers = takers_of(workload, module, data)
    for mistake in mistakes(workload, takers):
        raise TwinrunError(mistake)
    given, of_run = with_keys(workload.hyperparameters), given_by_run(workload).values()
    named = {name for taken in takers.values() for name in taken}

    def goes_to(taken: Parameters, name: str) -> bool:
        return name in taken or (name not in named and takes_any(taken))

    def arguments(path: str | None) -> dict[str, Any]:
        if path is None:
            return {}
        not_given = of_run if path == receiver(workload) else ()
        flat = {k: v for k, v in given.items() if goes_to(takers[path], k) and k not in not_given}
        return {**arguments_alone(workload, path), **flat}

    return module, data, arguments(workload.module), arguments(workload.data)


def arguments_alone(workload: Workload, path: str) -> dict[str, Any]:
    """Return what a config of LightningCLI gives to one of the constructors alone."""
    if workload.cli is None:
        return {}
    return with_keys(workload.cli.model if path == workload.module else workload.cli.data)


def receiver(workload: Workload) -> str:
    """Name the constructor that is given what comes from the run: the one that makes the data."""
    return workload.data or workload.module


def given_by_run(workload: Workload) -> dict[str, str]:
    """Name the arguments of the receiver that come from the run, by what they are given.

    Without a dataset a path is the constructor's own, as any hyperparameter.
    """
    names = {what: name for what, name in asdict(workload.from_run).items() if name is not None}
    if workload.dataset is None:
        names.pop("path", None)
    return names


def taken_from_run(workload: Workload, of_receiver: Parameters) -> dict[str, str]:
    """Return those of `given_by_run` that the receiver takes.

    A name that the config gives may be among arguments that a constructor does not name.
    """
    return {
        what: name
        for what, name in given_by_run(workload).items()
        if name in of_receiver or (name != what and takes_any(of_receiver))
    }


def replaced_defaults(workload: Workload, of_receiver: Parameters) -> Iterator[str]:
    """Yield a sentence for each default that a run replaces and a command of LightningCLI leaves.

    Of other workloads nothing says what their script gives. Data workers are 0 unless a variant
    has others: a default of 0 stays.
    """
    if workload.cli is None:
        return
    taken = taken_from_run(workload, of_receiver)
    for what in ("seed", "data_workers"):
        parameter = of_receiver.get(taken.get(what, ""))
        if parameter is None or parameter.default is parameter.empty:
            continue
        if what == "seed" or parameter.default != 0:
            yield (
                f"a run gives {receiver(workload)} its `{taken[what]}`, of which your command "
                f"leaves the default {shown(parameter.default)}; from_run: {{{what}: null}} beside "
                f"`cli` leaves it, too"
            )


def left_defaults(workload: Workload, takers: Mapping[str, Parameters]) -> Iterator[str]:
    """Yield a sentence for each class of which a file of LightningCLI leaves defaults.

    What a command links (`link_arguments`) is never in its file, and nothing else tells it.

    Args:
        workload: of which.
        takers: the parameters of each constructor, by its import path.
    """
    if workload.cli is None:
        return
    for path, parameters in takers.items():
        of_run = taken_from_run(workload, parameters) if path == receiver(workload) else {}
        given = {*workload.hyperparameters, *arguments_alone(workload, path), *of_run.values()}
        left = [
            f"{name} ({shown(parameter.default)})"
            for name, parameter in parameters.items()
            if name not in given and parameter.default is not parameter.empty
        ]
        if left:
            yield (
                f"{workload.cli.file} leaves the defaults of {path}: {some(left)}; what your "
                f"command links (link_arguments) has to be written there"
            )


def not_taken(workload: Workload, what: Literal["path", "seed", "data_workers"]) -> str:
    """Say that a data module is not given what a run would give it, and why."""
    name = getattr(workload.from_run, what)
    if name is None:
        return f"{receiver(workload)} is given no {what} (from_run.{what}: null)"
    return f"{receiver(workload)} takes no argument `{name}`"


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
    if workload.cli is not None:
        # Each command of LightningCLI has imported it before the classes, which may name it.
        importlib.import_module("pytorch_lightning.cli")
    try:
        found = import_object(path, search_path)
    except TwinrunError as error:
        raise TwinrunError(f"{key}: {error}") from error
    # A subclass of the package `lightning` is none: the same code, but another class.
    if inspect.isclass(found) and issubclass(found, base):
        return found
    # What it returns is looked at when it is called.
    if inspect.isroutine(found) or isinstance(found, functools.partial):
        return found
    name = f"pytorch_lightning.{base.__name__}"
    if isinstance(found, base):
        raise TwinrunError(f"{key}: {path} is an object, where the class of it is needed")
    cure = wrong_package(found)
    if key == "module" and inspect.isclass(found) and issubclass(found, torch.nn.Module):
        cure = cure or "; what trains a torch.nn.Module is a LightningModule around it"
    raise TwinrunError(f"{key}: {path} is no {name}{cure}")


def takers_of(
    workload: Workload,
    module: Constructor[pl.LightningModule],
    data: Constructor[pl.LightningDataModule] | None,
) -> dict[str, Parameters]:
    """Return the parameters of the constructors, by their import paths."""
    takers: dict[str, Parameters] = {workload.module: arguments_of(module)}
    if workload.data is not None and data is not None:
        takers[workload.data] = arguments_of(data)
    return takers


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
    source_of_data = receiver(workload)
    # Of its own, those that the run gives cannot be set.
    known = sorted(
        {
            name
            for path, names in named.items()
            for name in names - ({*of_run} if path == source_of_data else set())
        }
    )
    for name in hyperparameters:
        if name in known:
            continue
        if name in named[source_of_data]:
            what = next(what for what, given in given_names.items() if given == name)
            yield (
                f"hyperparameters.{name}: {shown(name)} of {source_of_data} is given by the run "
                f"and cannot be set; say `from_run: {{{what}: null}}` to give it yourself"
            )
        elif difflib.get_close_matches(name, known, 1, SLIP) or not any(
            map(takes_any, takers.values())
        ):
            nobody = f"neither {' nor '.join(takers)} takes it"
            if len(takers) == 1:
                nobody = f"{workload.module} does not take it"
            yield f"hyperparameters.{name}: {nobody}{suggestion(name, known)}"
    of_receiver = takers[source_of_data]
    # Of the path too where there is no dataset: its name may be wrong all the same.
    for what, name in asdict(workload.from_run).items():
        if name not in (None, what) and not (name in of_receiver or takes_any(of_receiver)):
            yield (
                f"from_run.{what}: {source_of_data} takes no argument {shown(name)}"
                f"{suggestion(name, list(of_receiver))}"
            )
    for source, parameters in takers.items():
        alone = arguments_alone(workload, source)
        for name in alone.keys() & {*of_run} if source == source_of_data else ():
            what = next(what for what, given in given_names.items() if given == name)
            if name in named[source]:
                yield (
                    f"cli: {shown(name)} of {source} is given by the run and cannot be set; leave "
                    f"it out of the file, or say `from_run: {{{what}: null}}`"
                )
        given = {*hyperparameters, *alone, *(of_run if source == source_of_data else ())}
        for name, parameter in parameters.items():
            is_needed = name in named[source] and parameter.default is parameter.empty
            if is_needed and name not in given:
                yield _needed(workload, source, name)


def _needed(workload: Workload, source: str, name: str) -> str:
    """Say that a constructor lacks what it needs."""
    cure = "" if workload.cli is None else f"; {workload.cli.file} {NOT_LINKED}"
    if source == receiver(workload) and name == workload.from_run.path:
        cure += OR_DATASET
    return f"hyperparameters.{name}: {source} needs it and has no default{cure}"
