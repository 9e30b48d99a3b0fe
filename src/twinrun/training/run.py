"""One run in fresh processes: one, or two where the variant has the first of them stopped."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from twinrun.config.definitions import Run
from twinrun.process.compiler_cache import own_cache
from twinrun.process.import_log import kept
from twinrun.process.launching import environment_of, launch


def run(asked: Run, further: Mapping[str, str]) -> None:
    """Train.

    Args:
        asked: what is trained, and where its files go.
        further: environment variables beside those that belong to the run.

    Raises:
        TwinrunError: if a process fails.
    """
    variant = asked.training.variant
    variables = environment_of(
        seed=asked.identity.seed,
        deterministic=variant.deterministic,
        threads=variant.threads,
        further=variant.environment,
    )
    stops = [False]
    if variant.stop != "none":
        # A checkpoint of an earlier attempt would have the training begin behind its stop.
        shutil.rmtree(asked.checkpoints, ignore_errors=True)
        stops = [True, False]
    # Beside the checkpoints lies the trace, also of an attempt that came to none.
    is_resumed = any(Path(asked.checkpoints).glob("*.ckpt"))
    # One for the whole run: its workers, and the process that resumes it, compile the same.
    with (
        own_cache() as cache,
        kept(asked.files.manifest, asked.imports, goes_on=is_resumed) as log,
    ):
        for is_stopped in stops:
            launch(
                "twinrun.training.train:train",
                {"run": asked, "is_stopped": is_stopped},
                # A variant's own variables come last: who shares a cache on purpose may.
                {**cache, **further, **variables, **log},
                workers=variant.devices,
                nodes=variant.nodes,
            )
            if Path(asked.files.manifest).exists():
                return  # there was no such point to stop at
