"""What differed first between two runs of a pair, read from the fingerprints of their steps.

The initial parameters come first, then the first step of which a fingerprint differs, and in it the
first quantity in the order of cause and effect (see `causes`), then the first tensor of it.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from twinrun import run_files
from twinrun.comparison.causes import GATHERED, OF_THE_BATCH, TAKEN_OVER, cause_of
from twinrun.comparison.comparable import are_comparable, are_shards_apart, whole_steps
from twinrun.comparison.kept_steps import row_of
from twinrun.comparison.pair_records import Cause, FirstDifference, Quantity
from twinrun.comparison.tables import INITIAL, QUANTITIES, SAMPLES, Run, known_of
from twinrun.run_records import PER_STEP, RunManifest
from twinrun.trace.hash_kinds import UNLIKE_ROWS, are_of_shards, kinds_of
from twinrun.trace.setting_values import settings_at

# What quantities are called where another word than their own is clearer; see `causes`.
WORDS: dict[str, Quantity] = {
    "initial": "initial parameters",
    "initial_buffers": "initial buffers",
    "before": "parameters before the step",
    "buffers_before": "buffers before the step",
    "random": "RNG states",
    "random_after": "RNG states after the step",
    "own_gradients": "workers' own gradients",
    "settings": "optimizer settings",
    "buffers": "buffers",
    "loss": "loss",
    "gradients": "gradients",
    "optimizer": "optimizer state",
    "parameters": "parameters",
}


def first_difference(
    first: Run, second: Run, steps: pd.DataFrame, *, workers: int
) -> FirstDifference | None:
    """Name the first step that differs, what differed first in it, and its cause.

    Args:
        first: a run.
        second: another one, a pair with it.
        steps: their table of steps.
        workers: how many trained together.

    Returns:
        None if nothing differs at any step, and both runs have as many.
    """
    for key, names in INITIAL.items():
        tensor = _differing_name(first, second, key, names)
        if tensor is not None:
            return _found(second, WORDS[key], tensor=tensor, workers=workers)
    equal = steps[[f"{quantity}_equal" for quantity in QUANTITIES]].to_numpy()
    known = known_of(first, second, len(steps))
    # Where shards are not to be compared the step was seen all the same.
    apart = are_shards_apart(first.fingerprints, second.fingerprints, steps["step"].to_numpy())
    whole = whole_steps({**known, "batch": known["batch"] | apart})
    if equal.all():
        # Asked only here: a step that differs explains another number of steps, not the reverse.
        return _of_number(first, second, steps[whole], workers=workers)
    # argmax of booleans finds the first True. The columns must be bool: in an array of objects
    # ~True is -2.
    index = int((~equal).any(axis=1).argmax())
    quantity = list(QUANTITIES)[int((~equal[index]).argmax())]
    tensor = None
    # Loss, batch and what the step starts with are one fingerprint each, without names.
    if quantity in PER_STEP and known[quantity][index]:
        step = int(steps["step"].iloc[index])
        tensor = _differing_name(first, second, quantity, PER_STEP[quantity], step)
    words: Quantity
    if quantity == "settings":
        found = _of_settings(first, second, steps.iloc[index], workers=workers)
    elif quantity == "batch":
        kind = _kind_of_data(first, second, index)
        words = "order of the batch" if kind == "data order" else "content of the batch"
        found = _found(second, words, row=steps.iloc[index], workers=workers)
        found["cause"] = kind
    else:
        words = WORDS[quantity]
        found = _found(second, words, row=steps.iloc[index], tensor=tensor, workers=workers)
    over = TAKEN_OVER + (GATHERED if _gathers(first.manifest) else ())
    found = _with_gap(found, steps, index, whole[: index + 1], over)
    # An earlier batch was followed by equal steps: it was not that.
    if apart[index] and found["quantity"] in OF_THE_BATCH and "since" not in found:
        found["cause"] = "data not compared"
    return found


def _gathers(manifest: RunManifest) -> bool:
    """Say whether a step may begin with gradients that steps before it have left."""
    of_epochs = run_files.workload_of(manifest).trainer.accumulation()
    told = of_epochs.values() if isinstance(of_epochs, dict) else [of_epochs]
    actual = manifest["actual"]
    return max(told) > 1 or (actual is not None and actual["gathers_gradients"])


def _with_gap(
    found: FirstDifference,
    steps: pd.DataFrame,
    index: int,
    whole: np.ndarray,
    over: Sequence[Quantity],
) -> FirstDifference:
    """Say since when it may have differed, where the steps before it were not traced.

    Args:
        found: what differed.
        steps: the table of steps.
        index: the row in which it did.
        whole: of each row up to that one, whether all of the step could be compared.
        over: quantities that a step takes over from those before it.
    """
    if not whole.all():
        # Anything in the steps since the last one that was compared whole may have caused it.
        last = np.flatnonzero(whole[:index])
        found["since"] = int(steps["step"].iloc[last[-1]]) + 1 if len(last) else 1
        found["cause"] = "not traced"
        return found
    before = int(steps["step"].iloc[index - 1]) if index else 0
    if found["step"] - before > 1:
        found["since"] = before + 1
        if found["quantity"] in over:
            found["cause"] = "not traced"
    return found


def _of_number(
    first: Run, second: Run, whole: pd.DataFrame, *, workers: int
) -> FirstDifference | None:
    """Name the first step that only one of two runs has; None if both have as many.

    Args:
        first: a run.
        second: another one.
        whole: rows of their table of steps, those of which all could be compared.
        workers: how many trained together.
    """
    done = min(run.manifest["steps"] for run in (first, second))
    if done == max(run.manifest["steps"] for run in (first, second)):
        return None
    longer = max(first.steps, second.steps, key=len)
    # Of a step that was not traced nobody knows the epoch: that of the last one that was.
    epochs = longer["epoch"][longer["step"] <= done + 1]
    row = pd.Series({"step": done + 1, "epoch": epochs.iloc[-1] if len(epochs) else 0})
    found = _found(second, "number of steps", row=row, workers=workers)
    seen = int(whole["step"].iloc[-1]) if len(whole) else 0
    if seen < done:
        # What differed in the steps that nobody saw may have ended one of the runs.
        found["since"], found["cause"] = seen + 1, "not traced"
    return found


def _found(
    second: Run,
    quantity: Quantity,
    *,
    row: pd.Series | None = None,
    tensor: str | None = None,
    workers: int,
) -> FirstDifference:
    return FirstDifference(
        repeat=second.manifest["repeat"],
        step=0 if row is None else int(row["step"]),
        epoch=0 if row is None else int(row["epoch"]),
        quantity=quantity,
        tensor=tensor,
        cause=cause_of(quantity, workers=workers),
    )


def _of_settings(first: Run, second: Run, row: pd.Series, *, workers: int) -> FirstDifference:
    """Name the setting of an optimizer that differs, with both values, if it is a number."""
    index = int(row["step"]) - 1
    left, right = (settings_at(run.fingerprints, index) for run in (first, second))
    # By text: NaN is equal to NaN.
    names = {**left, **right}
    differing = [name for name in names if repr(left.get(name)) != repr(right.get(name))]
    name = differing[0] if differing else None
    found = _found(second, WORDS["settings"], row=row, tensor=name, workers=workers)
    # ASSUME a setting that one run lacks belongs to a group that it lacks: nothing can be shown.
    if name is not None and name in left and name in right:
        found["values"] = [left[name], right[name]]
    return found


def _differing_name(
    first: Run, second: Run, key: str, names: str, step: int | None = None
) -> str | None:
    """Name the tensor or generator that differed first among those of a quantity, if one did.

    None also of a step of which single ones are not kept: the step can be replayed.
    """
    found = []
    for run in (first, second):
        values = run.fingerprints[key]
        if step is not None:
            row = row_of(run.fingerprints, "detail_steps", step)
            if row is None:
                return None
            values = values[row]
        found.append(dict(zip(run.fingerprints[names], values, strict=True)))
    left, right = found
    # ASSUME what one run lacks, such as the generator of a GPU, is no difference.
    differing = [str(name) for name in left if name in right and left[name] != right[name]]
    # ASSUME the module's order is that of its forward pass. The backward pass goes the other
    # way, so of the gradients that differ the last one was computed first.
    return differing[-1 if key == "gradients" else 0] if differing else None


def _kind_of_data(first: Run, second: Run, index: int) -> Cause:
    """Say of two batches that differ whether the same samples came at another position or time.

    ASSUME they did if most of the samples that one batch has and the other has not are elsewhere in
    the other run's epoch; a last partial batch that is dropped leaves a few out. Where that epoch
    was not seen whole, they may be in what was not seen.
    """
    arrays = first.fingerprints, second.fingerprints
    # Up to here both have the same steps; of its own later ones a run has the same hash.
    steps = first.steps["step"].to_numpy()[: index + 1]
    # In shards that were not put together a sample may be padded to the longest one beside it.
    of_shards = are_of_shards(kinds_of(second.fingerprints, "samples", steps)).any()
    if of_shards or not are_comparable(*arrays, "samples", steps).all():
        return "data order or content"
    own, other = (_samples_of_step(run, index) for run in (first, second))
    # `samples` is a sum of fingerprints, so it forgets the order.
    if first.steps["samples"][index] == second.steps["samples"][index]:
        # The same samples in the same order: what differs belongs to none of them.
        is_order = not len(own) or not np.array_equal(own, other)
        return "data order" if is_order else "data content"
    epoch = int(first.steps["epoch"][index])
    is_of_epoch = (second.steps["epoch"] == epoch).to_numpy()
    sizes = second.fingerprints["num_samples"]
    others = second.fingerprints["samples_of_steps"][np.repeat(is_of_epoch, sizes)]
    # By fingerprint: a sample that occurs twice in the data is the same one.
    moved = np.isin(np.setdiff1d(own, other), others)
    # With none missing in the other batch, only their numbers differ.
    if len(own) and (not len(moved) or moved.mean() > 0.5):
        return "data order"
    # Beyond the samples that a run keeps a step has none.
    is_kept = len(own) > 0 and bool(sizes[is_of_epoch].all())
    is_traced = len(second.steps) == second.manifest["steps"]
    # Padded to what is beside it, a sample is not known again in another batch.
    runs = ((run, run.steps["step"][run.steps["epoch"] == epoch]) for run in (first, second))
    is_kept &= not any(
        kinds_of(run.fingerprints, UNLIKE_ROWS, of.to_numpy()).any() for run, of in runs
    )
    is_seen = is_kept and is_traced and epoch <= second.manifest["whole_epochs"]
    return "data content" if is_seen else "data order or content"


def _samples_of_step(run: Run, index: int) -> np.ndarray:
    """Return the samples of a step, by its index from 0."""
    samples, sizes = (run.fingerprints[key] for key in SAMPLES)
    end = int(sizes[: index + 1].sum())
    return samples[end - int(sizes[index]) : end]
