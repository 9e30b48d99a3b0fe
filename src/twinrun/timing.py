"""Variants of one workload, measured in turn, round by round, in one process.

Each variant gets its own module from copies of the same initial weights, and batches that are
already on its device: inside the clock is the LightningModule's own `training_step`, the backward
pass and the step of its own optimizer (`train`), or its `predict_step` (`predict`). Outside are
loading, transfer, logging, learning-rate schedules, validation and the Trainer's loop. The first
call of each, with compilation and allocation, is `first_call` and is reported apart; two untimed
calls follow it. A round measures every variant once, over the same batches, and the next round
begins with another variant. The device is synchronised at both ends of the clock.

What cannot run on this machine is reported with the reason, and the others are still measured.
"""

import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from twinrun import artifacts, environment, ratios
from twinrun.entrants import Entrant, Material
from twinrun.jobs import TwinrunError, sentence_of
from twinrun.launching import report_progress

PROGRESS_SECONDS = 10.0


def measure(
    *,
    name: str,
    timing: Mapping[str, Any],
    workload: Mapping[str, Any],
    variants: Mapping[str, Mapping[str, Any]],
    dataset: str | None,
    search_path: Sequence[str] = (),
    seed: int = 1,
    outputs: Mapping[str, str],
) -> None:
    """Measure the variants of a workload and write every round and the summary.

    Args:
        name: of the timing.
        timing: `workload` (name), `rounds`, `steps` (training steps, or prediction batches, in a
            round), `phases` (of train, predict), and optionally `size` (a hyperparameter's name)
            with `sizes` (the values it takes in turn).
        workload: its settings.
        variants: settings by name; the first is the yardstick.
        dataset: path of the dataset's file.
        search_path: folders with the user's own modules.
        seed: of the initial weights and the data's order.
        outputs: paths of `rounds` (CSV) and `summary` (JSON).

    Raises:
        TwinrunError: if a number is not positive, the workload cannot be built, or no variant
            could be measured.
    """
    for key in ("rounds", "steps"):
        if timing[key] < 1:
            raise TwinrunError(f"{name}.{key}: {timing[key]} is out of range, at least 1 is needed")
    described = environment.describe()
    rows: list[dict[str, Any]] = []
    skipped: list[dict[str, Any]] = []
    compilation: list[dict[str, Any]] = []
    for size, sized in _sizes(timing, workload):
        material = Material(sized, dataset=dataset, seed=seed, search_path=search_path)
        label = name if size is None else f"{name}, {timing['size']} {size}"
        found, reasons, compiled = measure_rounds(material, variants, timing, label=label)
        rows += [{"size": size, **row} for row in found]
        compilation += [{"size": size, **row} for row in compiled]
        skipped += [{"variant": v, "size": size, "reason": r} for v, r in reasons.items()]
    if not rows:
        reasons = "; ".join(f"{entry['variant']}: {entry['reason']}" for entry in skipped)
        raise TwinrunError(f"{name}: no variant could be measured ({reasons})")
    identity = {"timing": name, "workload": timing["workload"]}
    columns = ["variant", "device", "size", "phase", "round", "steps", "seconds"]
    table = pd.DataFrame(rows)[columns]
    artifacts.write_csv(outputs["rounds"], table.assign(**identity)[[*identity, *columns]])
    yardstick = next(iter(variants))
    summary = {
        **identity,
        "yardstick": yardstick,
        "settings": {"timing": timing, "workload": workload, "variants": variants, "seed": seed},
        "environment": described,
        "medians": ratios.medians(table),
        "ratios": ratios.ratios(table, yardstick),
        "compilation": compilation,
        "skipped": skipped,
    }
    artifacts.write_json(outputs["summary"], summary)


def measure_rounds(
    material: Material,
    variants: Mapping[str, Mapping[str, Any]],
    timing: Mapping[str, Any],
    *,
    label: str,
) -> tuple[list[dict[str, Any]], dict[str, str], list[dict[str, Any]]]:
    """Measure variants in turn, at one size.

    Returns:
        A row for each measurement; for each variant that failed, the reason; for each compiled
        variant and phase, calls and compilations. A variant that fails on the way leaves no rows.
    """
    entrants: dict[str, Entrant] = {}
    rows: dict[str, list[dict[str, Any]]] = {}
    reasons: dict[str, str] = {}

    def attempt(name: str, act: Callable[[], list[dict[str, Any]]]) -> None:
        try:
            rows.setdefault(name, []).extend({"variant": name, **row} for row in act())
        except Exception as error:  # a user's module, a compiler or a device may raise anything
            traceback.print_exc()
            reasons[name] = sentence_of(error)
            rows.pop(name)
            entrants.pop(name, None)
            report_progress(f"{label}: {name} is skipped, {reasons[name]}")

    def enter(name: str) -> list[dict[str, Any]]:
        entrants[name] = Entrant(
            material, variants[name], phases=timing["phases"], steps=timing["steps"]
        )
        return [entrants[name].first_call()]

    for name in variants:
        report_progress(f"{label}: first call of {name}")
        attempt(name, lambda name=name: enter(name))
    progress = _Progress(label, timing["rounds"])
    for number in range(1, timing["rounds"] + 1):
        for name in _rotated(list(entrants), number):
            attempt(
                name,
                lambda e=entrants[name], n=number: [e.round(p, n) for p in timing["phases"]],
            )
        progress.say(number)
    compilation = [
        {"variant": name, **row}
        for name, entrant in entrants.items()
        for row in entrant.compilation()
    ]
    return [row for found in rows.values() for row in found], reasons, compilation


def _sizes(
    timing: Mapping[str, Any], workload: Mapping[str, Any]
) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Give each size with the workload of that size; without sizes, None and the workload."""
    if not timing.get("sizes"):
        yield None, workload
        return
    for size in timing["sizes"]:
        hyperparameters = {**workload["hyperparameters"], timing["size"]: size}
        yield size, {**workload, "hyperparameters": hyperparameters}


def _rotated(names: Sequence[str], number: int) -> list[str]:
    """Begin with another one in each round: whoever follows a rival finds other caches."""
    start = number % len(names) if names else 0
    return [*names[start:], *names[:start]]


class _Progress:
    """Says every few seconds how far the rounds are."""

    def __init__(self, label: str, rounds: int) -> None:
        self._label, self._rounds = label, rounds
        self._started = self._said = time.monotonic()

    def say(self, done: int) -> None:
        now = time.monotonic()
        if now - self._said >= PROGRESS_SECONDS:
            self._said = now
            left = (now - self._started) * (self._rounds / done - 1)
            report_progress(
                f"{self._label}: round {done} of {self._rounds}, about {left:.0f} s left"
            )
