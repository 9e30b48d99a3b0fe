"""The summary of a timing as `measure` writes it, for tests to change what they are about."""

from typing import Any

from twinrun import artifacts
from twinrun.timing.summary import TimingSummary

ENVIRONMENT = {"identity": {"torch": "2.13.0+cpu"}, "context": {"host": "example"}, "packages": {}}


def timing_summary(**changes: Any) -> TimingSummary:
    """Return a summary of nothing, but for `changes`; `size` is the hyperparameter of the sizes."""
    size = changes.pop("size", None)
    return {
        "timing": "determinism_denoiser",
        "workload": "denoiser",
        "baseline": "nondeterministic",
        "settings": {
            "timing": {"workload": "denoiser", "rounds": 12, "steps": 5, "size": size},
            "workload": {},
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
        "skipped": [],
        **changes,
    }


def write_summary(path, **changes: Any) -> None:
    """Write a summary as the workflow does."""
    artifacts.write_record(path, timing_summary(**changes), TimingSummary)
