"""One run in fresh processes: one, or two where the variant has the first of them stopped."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twinrun.process.launching import environment_of, launch


def run(arguments: Mapping[str, Any], further: Mapping[str, str]) -> None:
    """Train.

    Args:
        arguments: of `twinrun.training.train.train`, but for `is_stopped`.
        further: environment variables beside those that belong to the run.

    Raises:
        TwinrunError: if a process fails.
    """
    variant = arguments["variant"]
    variables = environment_of(
        seed=arguments["identity"]["seed"],
        deterministic=variant["deterministic"],
        threads=variant["threads"],
        further=variant["environment"],
    )
    stops = [False]
    if variant["stop"] != "none":
        shutil.rmtree(arguments["checkpoints"], ignore_errors=True)
        stops = [True, False]
    for is_stopped in stops:
        launch(
            "twinrun.training.train:train",
            {**arguments, "is_stopped": is_stopped},
            {**further, **variables},
            workers=variant["devices"],
            nodes=variant["nodes"],
        )
        if Path(arguments["outputs"]["manifest"]).exists():
            return  # there was no such point to stop at
