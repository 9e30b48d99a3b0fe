"""From the import paths of a workload to its module and data module.

Hyperparameters are one flat mapping: each goes to the constructor that names it, to both if both
do. One that neither names goes to a constructor with `**kwargs`, unless it looks like a misspelt
one, and is an error where there is none. The data module is also given `path` (its dataset's file),
`seed` (the run's) and `data_workers` (the variant's), where its constructor names them.
"""

import difflib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pytorch_lightning as pl

from twinrun.config.definitions import Workload
from twinrun.dataset_files import check_dataset
from twinrun.errors import TwinrunError
from twinrun.process.import_path import import_object
from twinrun.training.unsupported import wrong_package
from twinrun.wording import shown, suggestion

# Where a constructor's own arguments end and Lightning's or torch's begin.
FOREIGN = {"pytorch_lightning", "lightning", "torch"}

SLIP = 0.8  # how alike two names are, in difflib's measure, of which one is likely misspelt

Parameters = Mapping[str, inspect.Parameter]
Built = TypeVar("Built")


def load_workload(
    workload: Workload, search_path: Sequence[str] = ()
) -> tuple[type[pl.LightningModule], type[pl.LightningDataModule], dict[str, Any], dict[str, Any]]:
    """Import a workload's two classes and divide its hyperparameters between them.

    Returns:
        The LightningModule class, the LightningDataModule class, and the keyword arguments of each.

    Raises:
        TwinrunError: for a failed import, a wrong base class, an unknown or a missing
            hyperparameter; the first of them.
    """
    module = load_class(workload, "module", pl.LightningModule, search_path)
    data = load_class(workload, "data", pl.LightningDataModule, search_path)
    takers = takers_of(workload, module, data)
    for mistake in mistakes(workload, takers):
        raise TwinrunError(mistake)
    given, of_run = workload.hyperparameters, given_by_run(workload)
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


def given_by_run(workload: Workload) -> tuple[str, ...]:
    """Name the arguments of the data module that come from the run, not from the config.

    Without a dataset a `path` is the data module's own, if the config gives one.
    """
    is_own = workload.dataset is None and "path" in workload.hyperparameters
    return ("seed", "data_workers", *([] if is_own else ["path"]))


def takes_any(parameters: Parameters) -> bool:
    """Say whether a constructor takes arguments that it does not name."""
    return any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def load_class(
    workload: Workload, key: str, base: type[Built], search_path: Sequence[str] = ()
) -> type[Built]:
    """Import one of a workload's classes.

    Args:
        workload: of which.
        key: `module` or `data`.
        base: what the class must be derived from.
        search_path: folders with the user's own modules.

    Raises:
        TwinrunError: if it cannot be imported or is no such class.
    """
    path = getattr(workload, key)
    try:
        found = import_object(path, search_path)
    except TwinrunError as error:
        raise TwinrunError(f"{key}: {error}") from error
    # A subclass of the package `lightning` is none: the same code, but another class.
    if inspect.isclass(found) and issubclass(found, base):
        return found
    name = f"pytorch_lightning.{base.__name__}"
    if isinstance(found, base):
        raise TwinrunError(f"{key}: {path} is an object, where the class of it is needed")
    raise TwinrunError(f"{key}: {path} is no {name}{wrong_package(found)}")


def takers_of(
    workload: Workload,
    module: type[pl.LightningModule],
    data: type[pl.LightningDataModule],
) -> dict[str, Parameters]:
    """Return the parameters of both constructors, by their import paths."""
    return {
        workload.module: parameters_of(module),
        workload.data: parameters_of(data),
    }


def parameters_of(constructed: type) -> dict[str, inspect.Parameter]:
    """Return the constructor's parameters, following `**kwargs` up to the base class before torch.

    The class's own `**kwargs` are among them: what it does with others is its own affair, and its
    constructor's failure is told. Annotations are evaluated where they can be; else they are texts.
    """
    found: dict[str, inspect.Parameter] = {}
    rest = None
    for base in constructed.__mro__:
        if base.__module__.split(".")[0] in FOREIGN:
            break
        # Inherited: a base class further up has it.
        if "__init__" not in vars(base):
            continue
        parameters = list(_signature(vars(base)["__init__"]).parameters.values())[1:]
        named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        found.update({p.name: p for p in named if p.name not in found})
        # Without **kwargs nothing gets through to the constructors above.
        more = next((p for p in parameters if p.kind is p.VAR_KEYWORD), None)
        if more is None:
            break
        rest = rest or more
    return {**found, rest.name: rest} if rest is not None else found


def _signature(function: Callable[..., object]) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except Exception:  # an annotation may name what is only imported for type checkers
        return inspect.signature(function)


def mistakes(workload: Workload, takers: Mapping[str, Parameters]) -> Iterator[str]:
    """Yield a sentence for each hyperparameter that nobody takes, or that is missing.

    Args:
        workload: with hyperparameters as the config has them.
        takers: the parameters of each constructor, by its import path.
    """
    hyperparameters, of_run = workload.hyperparameters, given_by_run(workload)
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
            yield (
                f"hyperparameters.{name}: {shown(name)} of {workload.data} is given by the run and "
                f"cannot be set"
            )
        elif difflib.get_close_matches(name, known, 1, SLIP) or not any(
            map(takes_any, takers.values())
        ):
            yield (
                f"hyperparameters.{name}: neither {' nor '.join(takers)} takes it"
                f"{suggestion(name, known)}"
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
    return _construct(module_class, workload.module, given)


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
    names = parameters_of(data_class)
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
        check_dataset(dataset_path)
    of_run = {"path": dataset_path, "seed": seed, "data_workers": data_workers}
    given |= {name: value for name, value in of_run.items() if name in names and value is not None}
    data = _construct(data_class, workload.data, given)
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


def _construct(constructed: type[Built], source: str, given: Mapping[str, object]) -> Built:
    try:
        return constructed(**given)
    except Exception as error:  # a user's constructor may raise anything
        raise TwinrunError(
            f"{source}: constructing it with {shown(dict(given))} failed with "
            f"{type(error).__name__}: {error}"
        ) from error
