"""What a run gives beside its weights, compared: logged values, test metrics, predictions.

Runs that end in equal weights need not agree in these: a validation that draws random numbers, or
drops out, gives others. Values count as they were written, all digits of them; predictions by their
bytes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from twinrun import artifacts
from twinrun.artifacts import StoredTensors
from twinrun.comparison.pair_records import OutputComparison
from twinrun.comparison.predicted import are_rows, share_changed, size_of, unequal
from twinrun.formatting import count, plural, verb
from twinrun.run_files import FINGERPRINT, recorded_hash, verified
from twinrun.run_records import RunManifest

OF_ROWS = "positions of a row's largest value"
OF_VALUES = "predicted values"
OF_BOTH = "predictions (rows by the position of their largest value, all else by its bytes)"
WORST_FIRST = ("differs", "not run", "equal")


def logged_values(folders: Sequence[Path]) -> OutputComparison | None:
    """Compare what further runs logged in each epoch with what the first one did.

    Args:
        folders: of the runs, the first first; each has an epochs.csv.

    Returns:
        None if nothing is logged.
    """
    first, *others = (
        {f"{name} in epoch {epoch}": text for name, epoch, text in logged_in(folder)}
        for folder in folders
    )
    return _worst(_of_values(first, other, "value", []) for other in others)


def test_metrics(manifests: Sequence[RunManifest]) -> OutputComparison | None:
    """Compare what the runs measured on test data with what the first one did.

    Returns:
        None if there is no metric, and no test that failed.
    """
    # repr tells -0.0 from 0.0, and a NaN equals itself as text.
    first, *others = (
        {name: repr(value) for name, value in run["metrics"].items()} for run in manifests
    )
    failures = _failures(manifests, of_test=True)
    return _worst(_of_values(first, other, "metric", failures) for other in others)


def not_measured(run: RunManifest, predicted_by: Iterable[str]) -> dict[str, str]:
    """Say what a run gives of which nobody can tell how far it is from another run's, and why.

    >>> not_measured({"not_evaluated": {"test": "no data"}}, ["texts (fingerprint)"])
    {'test': 'no data', 'texts': 'no numbers, of which only a fingerprint is kept'}
    """
    texts = [name.removesuffix(FINGERPRINT) for name in predicted_by if name.endswith(FINGERPRINT)]
    why = "no numbers, of which only a fingerprint is kept"
    return {**run["not_evaluated"], **dict.fromkeys(texts, why)}


def predictions(
    folders: Sequence[Path], manifests: Sequence[RunManifest]
) -> OutputComparison | None:
    """Compare what the runs predicted with what the first one did, byte by byte.

    Args:
        folders: of the runs, the first first; each has a predictions.safetensors.
        manifests: theirs.

    Returns:
        None if there is no prediction, and none that failed.
    """
    first, *others = (predicted(folder / "run.json") for folder in folders)
    failures = _failures(manifests, of_test=False)
    return _worst(_of_tensors(first, other, failures) for other in others)


def predictions_changed(folders: Sequence[Path]) -> tuple[float | None, str]:
    """Return the share of predictions that change between two runs, and what is meant by one.

    Rows of floating-point numbers, (N, C), count by which number is the largest: it is the class
    that is predicted if they are scores, which nothing tells. Everything else counts by its bytes;
    of several tensors the one that changes most. Fingerprints of batches say nothing of how much
    changes, and are left out.
    """
    first, second = (predicted(folder / "run.json") for folder in folders)
    # ASSUME a tensor that only one run predicts is no change; `predictions` counts it.
    known = set(second.names())
    both = [name for name in first.names() if name in known and not name.endswith(FINGERPRINT)]
    shares = [share_changed(first, second, name) for name in both]
    kinds = {are_rows(first, name) for name in both}
    meant = OF_VALUES if kinds <= {False} else OF_ROWS if kinds == {True} else OF_BOTH
    return max(shares, default=None), meant


def are_same(first: Mapping[str, float], second: Mapping[str, float]) -> bool:
    """Say whether two runs give the same metrics by name, to the bit."""
    one, other = (
        {name: np.float64(value).tobytes() for name, value in of.items()} for of in (first, second)
    )
    return one == other


def predicted(run: Path) -> StoredTensors:
    """Find the predictions of a run, which its run.json names; they are read in parts."""
    return StoredTensors(verified(run, "predictions.safetensors"))


def hash_of_predictions(run: Path) -> str | None:
    """Return the hash of what a network predicts; None where there is nothing, which says nothing.

    The recorded one, that was held to the file's bytes just before.
    """
    file = verified(run, "predictions.safetensors")
    has_any = any(True for _ in artifacts.StoredTensors(file).names())
    return recorded_hash(run, file.name) if has_any else None


def logged_in(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield what a run logged: the name, the epoch, and the value."""
    # As text, so that every digit counts and a NaN is one.
    table = artifacts.read_csv(verified(folder / "run.json", "epochs.csv"), ["epoch"], types=str)
    for row in table.to_dict("records"):
        for name in map(str, table.columns.drop("epoch")):
            if row[name]:  # what was not logged in this epoch is no value
                yield name, row["epoch"], row[name]


def _of_values(
    first: Mapping[str, str], second: Mapping[str, str], noun: str, failures: Sequence[str]
) -> OutputComparison | None:
    # A dict keeps the order in which values were logged; a set would not.
    names = list({**first, **second})
    if not names:
        return _nothing(failures)
    differing = [name for name in names if first.get(name) != second.get(name)]
    measured = _counted(len(differing), len(names), noun)
    if differing:
        # An empty cell is of an epoch in which nothing was logged under this name.
        left, right = (found.get(differing[0]) or "none" for found in (first, second))
        measured += f", first {differing[0]}: {left} and {right}"
    return OutputComparison(
        answer="differs" if differing else "equal",
        compared=len(names),
        differing=len(differing),
        # Beside what was compared: it is not all that the runs give.
        measured="; but ".join([measured, *failures]),
    )


def _of_tensors(
    first: StoredTensors, second: StoredTensors, failures: Sequence[str]
) -> OutputComparison | None:
    names = list(dict.fromkeys([*first.names(), *second.names()]))
    if not names:
        return _nothing(failures)
    compared, differing, others = 0, 0, []
    for name in names:
        compared += max(size_of(first, name), size_of(second, name))
        found = unequal(first, second, name)
        differing += found
        # One without values differs in its form, or because one run alone has it.
        if found or first.form(name) != second.form(name):
            others.append(name)
    measured = _counted(differing, compared, "value")
    if others:
        measured += f", first of {others[0]}"
    return OutputComparison(
        answer="differs" if others else "equal",
        compared=compared,
        differing=differing,
        measured="; but ".join([measured, *failures]),
    )


def _counted(differing: int, compared: int, noun: str) -> str:
    said = verb("differ", differing, compared)
    return f"{count(differing)} of {plural(compared, noun)} {said}"


def _failures(manifests: Sequence[RunManifest], *, of_test: bool) -> list[str]:
    """Return why runs could not be tested, or their predictions not be kept; each reason once."""
    reasons = [
        # By name, where it is one output among several.
        reason if name in ("test", "predict") else f"{name} was not kept ({reason})"
        for run in manifests
        for name, reason in run["not_evaluated"].items()
        if (name == "test") == of_test
    ]
    return list(dict.fromkeys(reasons))


def _nothing(failures: Sequence[str]) -> OutputComparison | None:
    if not failures:
        return None
    return OutputComparison(answer="not run", compared=0, differing=0, measured="; ".join(failures))


def _worst(found: Iterable[OutputComparison | None]) -> OutputComparison | None:
    known = [agreement for agreement in found if agreement is not None]
    return min(known, key=lambda known: WORST_FIRST.index(known["answer"]), default=None)
