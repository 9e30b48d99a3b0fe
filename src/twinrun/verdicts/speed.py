"""Verdicts on time: what is faster, what does determinism cost, and the Trainer's loop?"""

from collections.abc import Mapping, Sequence
from typing import Any

from twinrun.formatting import measure, percent
from twinrun.timing.ratios import UNSTABLE_IQR_SHARE
from twinrun.verdicts.rows import Row

COSTS = "Does it cost time, against {baseline}?"
SAME_PREDICTED = "Does it predict what {baseline} predicts, but for rounding?"
LOOP_COSTS = "Does the Trainer's loop cost time, against the bare step?"


def speed(
    timing: Mapping[str, Any], entry: Mapping[str, Any], question: str, noun: str = "rounds"
) -> Row:
    """Give the row of a ratio, or of a variant that was skipped."""
    row = {"workload": timing["workload"], "variant": entry["variant"], "question": question}
    if "reason" in entry:
        answer, figure = "not run", entry["reason"]
    else:
        answer = "yes" if entry["high"] < 1 else "no"
        doubt = _doubt(timing["medians"], entry, timing["baseline"], noun)
        figure = speed_up(entry) + doubt
    return row | {"answer": answer, "figure": figure, "evidence": timing["path"]}


def costs(timing: Mapping[str, Any]) -> list[Row]:
    """Say of each variant but the baseline whether its training step takes longer."""
    rows = [
        {
            "workload": timing["workload"],
            "variant": ratio["variant"],
            "question": COSTS.format(baseline=timing["baseline"]),
            "answer": "yes" if ratio["low"] > 1 else "no",
            "figure": time_ratio(ratio) + _doubt(timing["medians"], ratio, timing["baseline"]),
            "evidence": timing["path"],
        }
        for ratio in timing["ratios"]
        if ratio["phase"] == "train" and ratio["variant"] != timing["baseline"]
    ]
    return rows + [
        {
            "workload": timing["workload"],
            "variant": skipped["variant"],
            "question": COSTS.format(baseline=timing["baseline"]),
            "answer": "not run",
            "figure": skipped["reason"],
            "evidence": timing["path"],
        }
        for skipped in timing["skipped"]
    ]


def loops(timing: Mapping[str, Any]) -> list[Row]:
    """Say of each variant what Lightning's loop adds to its step, at the largest size."""
    largest = {ratio["variant"]: ratio for ratio in timing["trainer"]}
    return [
        {
            "workload": timing["workload"],
            "variant": variant,
            "question": LOOP_COSTS,
            "answer": "yes" if ratio["low"] > 1 else "no",
            "figure": time_ratio(ratio),
            "evidence": timing["path"],
        }
        for variant, ratio in largest.items()
    ]


def agreements(timing: Mapping[str, Any]) -> list[Row]:
    """Say of each variant whether it predicts what the baseline does; of the sizes, the worst."""
    worst: dict[str, Mapping[str, Any]] = {}
    for row in timing["agreement"]:
        before = worst.setdefault(row["variant"], row)
        if not row["distance"] <= before["distance"]:  # so that NaN is the worst
            worst[row["variant"]] = row
    return [
        {
            "workload": timing["workload"],
            "variant": variant,
            "question": SAME_PREDICTED.format(baseline=timing["baseline"]),
            "answer": "yes" if row["distance"] <= row["tolerance"] else "no",
            "figure": f"relative L2 distance {measure(row['distance'])} on the first batch, "
            f"tolerance {measure(row['tolerance'])}",
            "evidence": timing["path"],
        }
        for variant, row in worst.items()
    ]


def measured_or_skipped(timing: Mapping[str, Any], phase: str = "train") -> list[Mapping[str, Any]]:
    """Give the ratios of a phase and the variants that were skipped."""
    ratios = [ratio for ratio in timing["ratios"] if ratio["phase"] == phase]
    return [*ratios, *timing["skipped"]]


def speed_up(ratio: Mapping[str, Any]) -> str:
    """Write a ratio of seconds as a speed-up, with its interval and what it means.

    >>> speed_up({"time_ratio": 0.5, "low": 0.4, "high": 0.625})
    '2.00 times as fast (95% interval 1.60 to 2.50)'
    """
    low, high = 1 / ratio["high"], 1 / ratio["low"]
    meaning = ": no difference measured" if low <= 1 <= high else ""
    interval = f"95% interval {measure(low)} to {measure(high)}"
    return f"{measure(1 / ratio['time_ratio'])} times as fast ({interval}){meaning}"


def time_ratio(ratio: Mapping[str, Any]) -> str:
    """Write a ratio of seconds with its interval and what it means.

    >>> time_ratio({"time_ratio": 1.02, "low": 0.98, "high": 1.07})
    '1.02 times the time a step (95% interval 0.980 to 1.07): no difference measured'
    """
    interval = f"95% interval {measure(ratio['low'])} to {measure(ratio['high'])}"
    meaning = "no difference measured"
    if ratio["low"] > 1 or ratio["high"] < 1:
        meaning = "slower" if ratio["low"] > 1 else "faster"
    return f"{measure(ratio['time_ratio'])} times the time a step ({interval}): {meaning}"


def _doubt(
    medians: Sequence[Mapping[str, Any]],
    ratio: Mapping[str, Any],
    baseline: str,
    noun: str = "rounds",
) -> str:
    """Say if one of the two measurements behind a ratio is unstable."""
    unstable = [
        median["variant"]
        for median in medians
        if median["unstable"]
        and median["variant"] in (ratio["variant"], baseline)
        and (median["phase"], median["size"]) == (ratio["phase"], ratio["size"])
    ]
    if not unstable:
        return ""
    share = percent(UNSTABLE_IQR_SHARE)
    return f"; unstable: {noun} of {' and '.join(unstable)} spread by more than {share}"
