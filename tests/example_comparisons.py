"""Records of comparisons and timings as evidence for verdicts, for tests to change."""

from typing import Any

from example_timings import timing_summary

from twinrun.verdicts.evidence import Evidence

DIVERGENCE = {
    "repeat": 2,
    "step": 3,
    "epoch": 1,
    "quantity": "gradients",
    "tensor": "user_factors",
    "cause": "backward",
}


def counts(elements: int, differing: int) -> dict[str, int]:
    """Return the counts of two tensors."""
    return {
        "tensors": 2,
        "elements": elements,
        "tensors_differing": min(differing, 2),
        "elements_differing": differing,
    }


def compared(**changes: Any) -> Evidence:
    """Return a comparison of two equal runs, but for `changes`."""
    equal = {
        "workload": "denoiser",
        "variant": "deterministic",
        "against": None,
        "seed": 1,
        "answer": "equal",
        "reason": None,
        "repeats": 2,
        "steps": 95,
        "parameters": counts(12609, 0),
        "buffers": counts(0, 0),
        "max_abs": 0.0,
        "max_ulp": 0,
        "relative_l2": 0.0,
        "first_difference": None,
        "logged": None,
        "metrics": None,
        "predictions": None,
        "resumed_at": [[], []],
        "compiler_cache": None,
        "is_untrained": False,
        "non_finite_loss": [None, None],
        "non_finite_parameters": [0, 0],
        "not_fingerprinted": [],
        "not_held": {},
        "departures": [],
        "same_as_seeds": [],
        "runs": [],
    }
    path = "comparisons/reproducibility/denoiser/deterministic.json"
    return Evidence(path=path, found=equal | changes)


def differing(**changes: Any) -> Evidence:
    """Return a comparison of two runs whose parameters differ."""
    found = {
        "answer": "differs",
        "parameters": counts(12609, 12001),
        "max_abs": 3.1e-5,
        "max_ulp": 41,
        "relative_l2": 1e-6,
        "first_difference": DIVERGENCE,
    }
    return compared(**found | changes)


def refused(**changes: Any) -> Evidence:
    """Return a comparison of two runs that are no pair."""
    reason = "data.sha256 is 'a' in repeat 1 and 'b' in repeat 2: the runs are no pair"
    nothing = dict.fromkeys(["max_abs", "max_ulp", "relative_l2"])
    return compared(**nothing | {"answer": "not comparable", "reason": reason} | changes)


def median(variant: str, **changes: Any) -> dict[str, Any]:
    """Return the median of a steady training step of 1 s."""
    steady = {
        "variant": variant,
        "device": "cpu",
        "size": None,
        "phase": "train",
        "seconds_per_step": 1.0,
        "iqr_share": 0.02,
        "rounds": 12,
        "steps": 60,
        "unstable": False,
    }
    return steady | changes


def timed(
    variant: str = "deterministic",
    interval: tuple[float, float, float] = (1.08, 1.06, 1.1),
    *,
    baseline: str = "nondeterministic",
    phase: str = "train",
    size: int | None = None,
    of_variant: dict[str, Any] | None = None,
    of_baseline: dict[str, Any] | None = None,
    **changes: Any,
) -> Evidence:
    """Return a timing of a variant beside a baseline.

    Args:
        variant: the name of the variant.
        interval: the ratio of the two, the lower and the upper end of its interval.
        baseline: the name of the baseline.
        phase: in which both were measured.
        size: at which both were measured.
        of_variant: changes of the variant's median.
        of_baseline: changes of the baseline's median.
        changes: of the whole summary.
    """
    middle, low, high = interval
    where = {"phase": phase, "size": size}
    ratio = {"variant": variant, **where, "time_ratio": middle, "low": low, "high": high}
    own = {"seconds_per_step": middle} | (of_variant or {})
    found = {
        "baseline": baseline,
        "medians": [
            median(baseline, **where | (of_baseline or {})),
            median(variant, **where | own),
        ],
        "ratios": [ratio],
    }
    summary = timing_summary(**found | changes)
    return Evidence(path="timings/determinism_denoiser.json", found=summary)
