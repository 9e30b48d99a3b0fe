"""The summary of a timing as `measure` writes it, for tests to change what they are about."""

from importlib import metadata
from typing import Any

from example_runs import CONTEXT
from example_trainings import WORKLOAD
from msgspec import convert

from twinrun import artifacts
from twinrun.config.definitions import Timing, Workload
from twinrun.timing.summary import TimingSummary

# The gate compares it with the torch that is installed.
IDENTITY = {"torch": metadata.version("torch")}
ENVIRONMENT = {"identity": IDENTITY, "context": CONTEXT, "packages": {}}


def timing_summary(**changes: Any) -> TimingSummary:
    """Return a summary of nothing, but for `changes`; `size` is the hyperparameter of the sizes."""
    size = changes.pop("size", None)
    return {
        "timing": "determinism_denoiser",
        "workload": "denoiser",
        "baseline": "nondeterministic",
        "settings": {
            "timing": Timing(
                workload="denoiser",
                variants=["nondeterministic", "deterministic"],
                rounds=12,
                steps=5,
                phases=["train"],
                size=size,
            ),
            "workload": convert(WORKLOAD, Workload),
            "variants": {},
            "seed": 1,
        },
        "environment": ENVIRONMENT,
        "medians": [],
        "ratios": [],
        "trainer": [],
        "compilation": [],
        "proofs": [],
        "agreement": [],
        "extents": [],
        "had": [],
        "skipped": [],
        "without_epoch_hooks": [],
        "code": {},
        **changes,
    }


def write_summary(path, **changes: Any) -> None:
    """Write a summary as the workflow does."""
    artifacts.write_record(path, timing_summary(**changes), TimingSummary)
