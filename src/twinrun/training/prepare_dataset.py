"""Make a dataset: call its function, store the arrays, record how it was made and its hash.

The same parameters give the same bytes on the same library versions; the manifest names both, and
holds nothing (no time, no host) that would differ between two makings.
"""

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

import numpy as np

from twinrun import artifacts
from twinrun.config.keys import with_keys
from twinrun.dataset_files import ArrayEntry, DatasetManifest, write_manifest
from twinrun.errors import TwinrunError
from twinrun.process.import_path import import_object
from twinrun.process.shared_files import leave_out
from twinrun.wording import shown, suggestion

LIBRARIES = ("numpy", "pillow", "matplotlib")  # whose versions the bytes depend on


def prepare(
    *,
    name: str,
    make: str,
    parameters: Mapping[str, object],
    search_path: Sequence[str],
    arrays: str,
    manifest: str,
) -> None:
    """Make a dataset and write its .npz and .json.

    Args:
        name: the dataset's name in the config.
        make: import path of a function that returns arrays by name.
        parameters: its keyword arguments.
        search_path: folders with the user's own modules.
        arrays: path of the .npz.
        manifest: path of the .json: how made, each array's shape and dtype, sha256 of the .npz.

    Raises:
        TwinrunError: see `made_arrays`.
    """
    leave_out([str(Path(arrays).absolute().parent)])
    with contextlib.chdir("."):  # which a user's function may change
        made = made_arrays(name, make, parameters, search_path)
    # The arrays first: the manifest vouches for bytes that are there.
    artifacts.write_arrays(arrays, made)
    write_manifest(
        manifest,
        DatasetManifest(
            dataset=name,
            make=make,
            parameters=dict(parameters),
            libraries={library: metadata.version(library) for library in LIBRARIES},
            arrays={
                k: ArrayEntry(shape=list(a.shape), dtype=str(a.dtype)) for k, a in made.items()
            },
            sha256=artifacts.sha256(arrays),
        ),
    )


def made_arrays(
    name: str, make: str, parameters: Mapping[str, object], search_path: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """Call the function that makes a dataset.

    Raises:
        TwinrunError: if the function cannot be imported, is none, does not take the parameters,
            fails, or returns something else than arrays that hold something.
    """
    key = f"datasets.{name}"
    try:
        function = import_object(make, search_path)
    except TwinrunError as error:
        raise TwinrunError(f"{key}.make: {error}") from error
    if not callable(function):
        raise TwinrunError(
            f"{key}.make: {make} is no function ({shown(function)}); name one that returns NumPy "
            f"arrays by name"
        )
    parameters = with_keys(parameters)
    _check_parameters(key, make, function, parameters)
    try:
        made = function(**parameters)
    except Exception as error:  # a user's function may raise anything
        raise TwinrunError(
            f"{key}: {make} with {shown(dict(parameters))} failed with "
            f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(made, Mapping) or not all(isinstance(a, np.ndarray) for a in made.values()):
        raise TwinrunError(
            f"{key}.make: {make} returned no dictionary of NumPy arrays, but a "
            f"{type(made).__name__}"
        )
    # An empty dataset would only fail in a loader, in words of somebody else.
    if not any(array.size for array in made.values()):
        raise TwinrunError(f"{key}.make: {make} returned nothing: no array holds a value")
    return dict(made)


def signature_of(function: Callable[..., object]) -> Mapping[str, inspect.Parameter] | None:
    """Return the parameters of a function, None where nobody knows them."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # of functions written in C
        return None


def _check_parameters(
    key: str, make: str, function: Callable[..., object], parameters: Mapping[str, object]
) -> None:
    """Refuse parameters that a function does not take, and those that it needs."""
    taken = signature_of(function)
    if taken is None:
        return
    named = {n: p for n, p in taken.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    takes_all = any(p.kind is p.VAR_KEYWORD for p in taken.values())
    problems = [
        f"{key}.parameters.{name}: {make} does not take it{suggestion(name, list(named))}"
        for name in parameters
        if name not in named and not takes_all
    ]
    missing = [n for n, p in named.items() if p.default is p.empty and n not in parameters]
    if missing:
        problems.append(f"{key}.parameters: {make} needs {', '.join(missing)} too")
    if problems:
        raise TwinrunError("; ".join(problems))
