"""What resuming loses: runs that were stopped and resumed, held against the one that was not.

For each kind of stop there is a run resumed by Lightning's own checkpoint and one by Twinrun's. Of
each it is said whether it ends in the same bits, and if not, what was lost, by the fingerprints of
the first step after the resumption: whose turn the batches were, which random streams had moved,
and what differed first where the batch was the right one. Does without torch.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from twinrun import artifacts, run_files
from twinrun.comparison.compare import compare
from twinrun.formatting import count, plural

STREAM = "random "  # before the name of a random stream
HAS_NO_VALIDATION = "the training has no validation"
COLUMNS = ["stop", "resume", "answer", "resumed_at", "steps", "lost", "relative_l2"]


def diagnose(
    pairs: Sequence[Mapping[str, str]],
    *,
    identity: Mapping[str, Any],
    folder: str | Path,
    table: str | Path,
    summary: str | Path,
) -> None:
    """Write the table of what resuming loses, and the same as JSON.

    Args:
        pairs: `stop` and `resume` of each run that was stopped, and by the paths of their run.json
            the `stopped` run and the `whole` one.
        identity: `workload`, `variant` and `seed`.
        folder: for the comparisons, `{stop}-{resume}.json` with its tables beside it.
        table: path of the CSV.
        summary: path of the JSON.

    Raises:
        TwinrunError: if a file of a run is corrupt or missing.
    """
    rows = [_row(pair, Path(folder)) for pair in pairs]
    steps = run_files.read_run(pairs[0]["whole"])["steps"]
    artifacts.write_csv(table, pd.DataFrame(rows)[COLUMNS])
    artifacts.write_json(summary, {**identity, "steps": steps, "stops": rows})


def _row(pair: Mapping[str, str], folder: Path) -> dict[str, Any]:
    stop, resume = pair["stop"], pair["resume"]
    row = {"stop": stop, "resume": resume, **dict.fromkeys(COLUMNS[2:])}
    manifest = run_files.read_run(pair["stopped"])
    if not manifest["resumed_at"]:
        reason = "the training never comes to this point"
        if stop in ("before_validation", "after_validation"):
            reason = HAS_NO_VALIDATION
        return row | {"answer": "not run", "lost": reason}
    row |= {"resumed_at": manifest["resumed_at"][-1], "steps": manifest["steps"]}
    if manifest["ended"] != "finished":
        ended = manifest["ended"].split(". ")[0]
        return row | {"answer": "differs", "lost": f"the resumed training was {ended}"}
    evidence = folder / f"{stop}-{resume}.json"
    compare(
        [pair["whole"], pair["stopped"]],
        summary=evidence,
        tensors=evidence.with_suffix(".tensors.csv"),
        steps=evidence.with_suffix(".steps.csv"),
        across=True,
    )
    found = artifacts.read_json(evidence)
    lost = "nothing was lost"
    if found["answer"] == "not comparable":
        lost = found["reason"]
    elif found["answer"] == "differs":
        traces = [_trace(pair[key]) for key in ("whole", "stopped")]
        at = manifest["resumed_at"][-1]
        lost = "; ".join(losses(*traces, at=at, found=found))
    return row | {
        "answer": found["answer"],
        "lost": lost,
        "relative_l2": found["relative_l2"],
    }


def losses(
    whole: pd.DataFrame, resumed: pd.DataFrame, *, at: int, found: Mapping[str, Any]
) -> list[str]:
    """Say what a resumed training has lost.

    Args:
        whole: steps.csv of the uninterrupted training, with a column for each random stream.
        resumed: of the resumed one, with the steps from before the stop.
        at: the steps done when it was resumed.
        found: the comparison of the two, which differ.
    """
    named = []
    if at < min(len(whole), len(resumed)):
        named = list(_first_step(whole, resumed, at))
    missing = len(whole) - len(resumed)
    if missing:
        named.append(f"{plural(abs(missing), 'step')} too {'few' if missing > 0 else 'many'}")
    first = found["first_difference"]
    if first is None:
        named.append("something that no step shows")
    elif not named:
        of_tensor = f" of {first['tensor']}" if first["tensor"] else ""
        named.append(f"from step {count(first['step'])} another {first['quantity']}{of_tensor}")
    if not found["parameters"]["elements_differing"]:
        named.append("the parameters are equal all the same")
    return named


def _first_step(whole: pd.DataFrame, resumed: pd.DataFrame, at: int) -> Iterator[str]:
    """Hold the first step after the resumption against the one that it should be."""
    equal = whole.iloc[at] == resumed.iloc[at]
    if not equal["batch"]:
        yield _order(whole, resumed, at)
    if not equal["before"]:
        yield "the parameters are not those of the stop"
    streams = [name for name in whole if name.startswith(STREAM) and not equal[name]]
    if streams:
        *others, last = (name.removeprefix(STREAM) for name in streams)
        names = " and ".join(filter(None, [", ".join(others), last]))
        yield f"the random streams of {names} are not where they were"
    if equal["gradients"] and not equal["optimizer"]:
        yield "the optimizer's state or settings are not those of the stop"


def _order(whole: pd.DataFrame, resumed: pd.DataFrame, at: int) -> str:
    """Say whose turn the mini-batches after the resumption were."""
    epoch = whole["epoch"][at]
    left = whole["batch"][at:][whole["epoch"][at:] == epoch]
    seen = resumed["batch"][at : at + len(left)]
    places = {batch: step for step, batch in reversed(list(enumerate(whole["batch"])))}
    place = places.get(seen.iloc[0])
    if place is None:
        return f"the mini-batches of epoch {epoch} are others"
    left_out = f"{count(int((~left.isin(seen)).sum()))} of {count(len(left))} mini-batches to come"
    if whole["epoch"][place] != epoch:
        return f"the order of epoch {whole['epoch'][place]} is replayed in epoch {epoch}"
    if place < at:
        return f"epoch {epoch} begins again, leaving out {left_out}"
    return f"{left_out} in epoch {epoch} are left out"


def _trace(run: str) -> pd.DataFrame:
    """Read the steps of a run, with a column for each random stream."""
    folder = Path(run).parent
    arrays = artifacts.read_arrays(folder / "fingerprints.npz")
    streams = zip(arrays["stream_names"], arrays["random"].T, strict=True)
    steps = pd.read_csv(folder / "steps.csv", dtype={"batch": str})
    return steps.assign(**{f"{STREAM}{name}": states for name, states in streams})
