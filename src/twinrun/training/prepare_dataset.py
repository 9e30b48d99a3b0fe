"""Make a dataset: call its function, store the arrays, record how it was made and its hash.

The same parameters give the same bytes on the same library versions; the manifest names both, and
holds nothing (no time, no host) that would differ between two makings.
"""

from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np

from twinrun import artifacts
from twinrun.errors import TwinrunError
from twinrun.process.import_path import import_object

LIBRARIES = ("numpy", "pillow", "matplotlib")  # whose versions the bytes depend on


def prepare(
    *,
    name: str,
    make: str,
    parameters: Mapping[str, Any],
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
        TwinrunError: if the function cannot be imported, does not take the parameters, or returns
            something else than arrays.
    """
    function = import_object(make, search_path)
    try:
        made = function(**parameters)
    except (TypeError, ValueError) as error:
        raise TwinrunError(
            f"datasets.{name}: {make} with {dict(parameters)} failed with "
            f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(made, Mapping) or not all(isinstance(a, np.ndarray) for a in made.values()):
        raise TwinrunError(f"datasets.{name}.make: {make} returned no dictionary of NumPy arrays")
    artifacts.write_arrays(arrays, made)
    artifacts.write_json(
        manifest,
        {
            "dataset": name,
            "make": make,
            "parameters": parameters,
            "libraries": {library: metadata.version(library) for library in LIBRARIES},
            "arrays": {k: {"shape": list(a.shape), "dtype": str(a.dtype)} for k, a in made.items()},
            "sha256": artifacts.sha256(arrays),
        },
    )
