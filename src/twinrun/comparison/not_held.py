"""What a pair trained and no module holds, and whether anything that was trained was compared.

Of weights that neither the module nor Lightning's optimizers hold the fingerprints at the end are
compared. Without them, runs that hold no tensor, or none that any step changes, are equal whatever
was trained: there is nothing to judge.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import xxhash

from twinrun.comparison.pair_records import FirstDifference
from twinrun.comparison.tables import Run
from twinrun.run_files import has_tensors
from twinrun.run_records import NotHeld, RunManifest
from twinrun.trace.hash_kinds import kinds_of

REMEDY = (
    "make what is trained a submodule or a torch.nn.Parameter of the LightningModule, or return "
    "its optimizer from configure_optimizers, to have it compared"
)


def ends_of(manifests: Sequence[RunManifest]) -> dict[str, bool | None]:
    """Say of each tensor that no module holds whether all runs end in the same; None if unknown.

    What ends alike and was not trained is left out: an input that a network is differentiated by.
    """
    names = sorted({name for run in manifests for name in run["not_held"]})
    held = {name: [run["not_held"].get(name) for run in manifests] for name in names}
    ends = {name: _ends_alike(found) for name, found in held.items()}
    return {n: end for n, end in ends.items() if not (end and all(map(_was_still, held[n])))}


def _was_still(found: NotHeld | None) -> bool:
    return found is not None and found["is_still"]


def _ends_alike(found: Sequence[NotHeld | None]) -> bool | None:
    """Say whether all runs end in the same tensors of a name; None if nobody knows."""
    ends = [[] if each is None else each["prints"] for each in found]
    if any("" in prints for prints in ends):
        return None
    # How many tensors are in memory may be chance: what none of the module's attributes holds lives
    # as long as somebody uses it (a thread, a failure, a figure).
    is_reached = any(each is not None and each["is_reached"] for each in found)
    if not is_reached and len({*map(len, ends)}) > 1:
        return None
    return all(prints == ends[0] for prints in ends)


def difference_of(runs: Sequence[Run], ends: Mapping[str, bool | None]) -> list[FirstDifference]:
    """Return the difference of the first tensor that does not end alike, if there is one.

    Args:
        runs: of a pair that is equal otherwise; none of another one.
        ends: as `ends_of` gives them.
    """
    names = [name for name, is_alike in ends.items() if is_alike is False]
    if not names or not runs:
        return []
    first, *others = (run.manifest for run in runs)
    prints = first["not_held"].get(names[0])
    other = next(run for run in others if run["not_held"].get(names[0]) != prints)
    found = FirstDifference(
        repeat=other["repeat"],
        step=first["steps"],
        epoch=first["epochs"],
        quantity="weights outside the module",
        tensor=names[0],
        cause="not held",
        since=0,
    )
    return [found]


def why_nothing(runs: Sequence[Run]) -> str | None:
    """Say why runs that are equal show nothing of what was trained; None if they do."""
    if not any(has_tensors(run.manifest) for run in runs):
        what = "the module holds no parameter and no buffer, and Lightning's optimizers none either"
    elif all(is_untrained(run) and _has_still_buffers(run) for run in runs):
        what = "no step changes a parameter or a buffer"
    else:
        return None
    return f"nothing that was trained was compared: {what}; {REMEDY}"


def is_untrained(run: Run) -> bool:
    """Say whether a run changed no parameter: at no traced step, nor behind it or between them."""
    return _is_still(run, "before", "parameters") and _changed_nothing(run, "names", "initial")


def _is_whole(run: Run) -> bool:
    return len(run.steps) == run.manifest["steps"]


def _is_still(run: Run, before: str, after: str) -> bool:
    """Say whether a quantity is the same before and after every step that was traced."""
    found = run.steps[[before, after]].to_numpy()
    # On a GPU one step has another hash than the others.
    kinds = kinds_of(run.fingerprints, after, run.steps["step"].to_numpy())
    of_kinds = [found[kinds == kind] for kind in np.unique(kinds)]
    return all(bool((of == of[0, 0]).all()) for of in of_kinds)


def _changed_nothing(run: Run, names: str, initial: str) -> bool:
    """Say whether tensors are at the end what they were, where no traced step changes them.

    A hook may set them behind the last step: a fit of all that the steps have gathered, say.
    """
    as_they_began = _end_as_they_began(run, names, initial)
    return as_they_began is not False if _is_whole(run) and len(run.steps) else bool(as_they_began)


def _end_as_they_began(run: Run, names: str, initial: str) -> bool | None:
    """Say whether tensors are at the end what they were before the first step; None if unknown."""
    began = run.fingerprints.get(initial, np.array([]))
    first = kinds_of(run.fingerprints, "before", run.steps["step"].to_numpy()[:1])
    if not len(began) or first.any():
        return None
    found, kept = [], set(run.weights.names())
    for name, value in zip(run.fingerprints[names].tolist(), began.tolist(), strict=True):
        if name not in kept:  # held by an optimizer alone: nobody knows how it ended
            found.append(None)
            continue
        end = xxhash.xxh3_64()  # as `trace.fingerprints`, of a tensor on the host
        for part in run.weights.parts(name):
            end.update(part.tobytes())
        found.append(end.intdigest() == value)
    unknown = None if None in found else True
    return False if False in found else unknown


def _has_still_buffers(run: Run) -> bool:
    return _is_still(run, "buffers_before", "buffers") and _changed_nothing(
        run, "buffer_names", "initial_buffers"
    )
