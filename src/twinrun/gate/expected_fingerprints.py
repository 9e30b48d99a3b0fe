"""Expected fingerprints of runs, kept in a user's repository, by the environment they hold in.

A file of them is a JSON list of entries: an environment (versions, CPU, instruction set, threads)
and what the runs that were made in it ended in. Runs in an environment that no entry has are not
comparable to anything: other hardware gives other bits, which is no fault.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict

from twinrun import artifacts, run_files
from twinrun.errors import TwinrunError
from twinrun.formatting import count, measure, plural
from twinrun.run_records import RunManifest


class Fingerprint(TypedDict):
    """What a run ended in."""

    weights: str
    """SHA-256 of weights.safetensors, and of what no module holds, if anything; empty without."""
    parameters: dict[str, str]
    """Fingerprints of all parameters after step 1, 2, 4, 8 and so on, and after the last one."""
    steps: int
    """How many steps it made."""
    loss: float | None
    """The loss of the last step; None without any."""
    metrics: dict[str, float]
    """What was logged in testing."""


class Entry(TypedDict):
    """The runs of one environment."""

    environment: dict[str, str | int]
    """What must be equal for bits to be comparable: versions, processor, driver, threads."""
    runs: dict[str, Fingerprint]
    """By `workload/variant/seed1/repeat1`."""


def observed(runs: Sequence[str | Path]) -> list[Entry]:
    """Describe finished runs as entries, one for each environment.

    Args:
        runs: run.json of each; its steps.csv lies beside it.
    """
    entries: list[Entry] = []
    for run in map(Path, runs):
        if run_files.failure_of(run) is not None:
            continue  # see `failed_trainings`
        manifest = run_files.read_run(run)
        identity = manifest["environment"]["identity"]
        environment = {
            # An upgrade of a package that does not compute need not be accepted anew: if one does
            # after all, the weights say so.
            **{key: value for key, value in identity.items() if key != "distributions"},
            "threads": run_files.variant_of(manifest).threads,
        }
        name = f"{manifest['workload']}/{manifest['variant']}/seed{manifest['seed']}"
        name += f"/repeat{manifest['repeat']}"
        _entry(entries, environment)["runs"][name] = _fingerprint(run, manifest)
    return entries


def _fingerprint(run: Path, manifest: RunManifest) -> Fingerprint:
    # As text: a fingerprint without a letter would be read as a number, and so would
    # 12e4567890123456.
    steps = artifacts.read_csv(
        run_files.verified(run, "steps.csv"),
        ["step", "loss", "parameters"],
        types={"parameters": "str"},
    )
    parameters = dict(zip(steps["step"].tolist(), steps["parameters"], strict=True))
    losses = dict(zip(steps["step"].tolist(), steps["loss"].tolist(), strict=True))
    last = manifest["steps"]
    # Steps 1, 2, 4, 8 ... tell within a factor of two when a run diverged, in a file that a person
    # can still read and that git can keep.
    kept = [2**n for n in range(last.bit_length()) if 2**n < last] + [last]
    return {
        "weights": run_files.end_of(manifest) or "",
        # JSON has no other keys than text.
        "parameters": {str(step): parameters[step] for step in kept if step in parameters},
        "steps": last,
        # None too of a last step that was not traced.
        "loss": losses.get(last),
        "metrics": manifest["metrics"],
    }


def _entry(entries: list[Entry], environment: Mapping[str, str | int]) -> Entry:
    """Return the entry of an environment, a new one if there is none."""
    found = next((entry for entry in entries if entry["environment"] == environment), None)
    if found is None:
        found = Entry(environment=dict(environment), runs={})
        entries.append(found)
    return found


def read(path: str | Path) -> list[Entry]:
    """Read a file of expectations; a file that does not exist holds none.

    Raises:
        TwinrunError: if it is no such file.
    """
    try:
        # FileNotFoundError is an OSError, so it is caught before that.
        entries = artifacts.read_record(path, list[Entry])
    except FileNotFoundError:
        return []
    except (TwinrunError, OSError) as error:
        # It is in a repository, and may be there for other machines.
        what = str(error).partition(": delete it")[0]
        raise TwinrunError(
            f"require.fingerprint: {path} is no file of expected fingerprints ({what}); take it "
            f"back from where it was whole (a merge may have left its marks in it), or delete it "
            f"and accept what is found (python -m twinrun.gate results/gate.json --accept)"
        ) from None
    return _joined(path, entries)


def _joined(path: str | Path, entries: Sequence[Entry]) -> list[Entry]:
    """Join entries of one environment, as a merge of two branches may leave them.

    Raises:
        TwinrunError: if they expect different ends of one run.
    """
    found: list[Entry] = []
    for entry in entries:
        runs = _entry(found, entry["environment"])["runs"]
        for name, run in entry["runs"].items():
            if runs.setdefault(name, run)["weights"] != run["weights"]:
                raise TwinrunError(
                    f"require.fingerprint: {path} expects two ends of {name} in one environment, "
                    f"weights {runs[name]['weights'][:12]}... and {run['weights'][:12]}...: take "
                    f"one of the two out (a merge may have kept both)"
                )
    return found


def write(path: str | Path, entries: list[Entry]) -> None:
    """Write a file of expectations."""
    artifacts.write_record(path, entries, list[Entry])


def outcome_now(
    path: str | Path, found: Sequence[Entry]
) -> tuple[Literal["pass", "fail", "not comparable"], str]:
    """Compare the runs that were made with a file of expectations as it is now."""
    return outcome_of(read(path), found)


def outcome_of(
    expected: Sequence[Entry], found: Sequence[Entry]
) -> tuple[Literal["pass", "fail", "not comparable"], str]:
    """Compare the runs that were made with the expected ones; return the outcome, and why."""
    moved, unknown, kept = [], [], 0
    for entry in found:
        known = next((e for e in expected if e["environment"] == entry["environment"]), None)
        for name, run in entry["runs"].items():
            if known is None:
                unknown.append(_other_environment(expected, entry))
            elif name not in known["runs"]:
                unknown.append(f"nothing is expected of {name}")
            # By the weights alone: the rest says by which step and how far they moved.
            elif run["weights"] != known["runs"][name]["weights"]:
                moved.append(f"{name}: {'; '.join(movements(known['runs'][name], run))}")
            elif not run["weights"]:
                unknown.append(f"nothing that {name} trained was kept to be compared")
            else:
                kept += 1
    gone = [name for entry in expected for name in _not_made(entry, found)]
    if gone:
        unknown.append(
            f"{', '.join(gone)} {'is' if len(gone) == 1 else 'are'} expected and not among the "
            f"runs: take out of the file what nothing is to be expected of"
        )
    # One run that moved is a fault, whatever else could not be compared.
    if moved:
        return "fail", "; ".join(moved)
    if unknown:
        return "not comparable", "; ".join(dict.fromkeys(unknown))
    # Without a run nothing moved and nothing is unknown: that must be no pass.
    if not kept:
        return "not comparable", "no run was made whose weights are expected"
    return "pass", f"{plural(kept, 'run')} end{'s' if kept == 1 else ''} in the expected weights"


def _not_made(expected: Entry, found: Sequence[Entry]) -> list[str]:
    """Name the runs that are expected on this machine and that were not made, with any threads."""
    here = [entry["environment"] for entry in found]
    if not any(_without_threads(expected["environment"]) == _without_threads(e) for e in here):
        return []
    return [name for name in expected["runs"] if not any(name in e["runs"] for e in found)]


def _without_threads(environment: Mapping[str, str | int]) -> dict[str, str | int]:
    return {key: value for key, value in environment.items() if key != "threads"}


def _other_environment(expected: Sequence[Entry], entry: Entry) -> str:
    if not expected:
        return "no fingerprint has been accepted yet"
    nearest = min(expected, key=lambda e: len(list(_unequal(e, entry))))
    return "another environment: " + ", ".join(_unequal(nearest, entry))


def _unequal(expected: Entry, found: Entry) -> Iterator[str]:
    old, new = expected["environment"], found["environment"]
    for key in {**old, **new}:
        if old.get(key) != new.get(key):
            yield f"{key} {new.get(key)}, expected {old.get(key)}"


def movements(expected: Fingerprint, found: Fingerprint) -> Iterator[str]:
    """Say what moved between an expected run and the one found.

    >>> old = {"weights": "ab", "parameters": {"1": "x"}, "steps": 1, "loss": 0.5, "metrics": {}}
    >>> list(movements(old, old | {"weights": "cd", "parameters": {"1": "y"}, "loss": 0.25}))
    ['other weights', 'diverged by step 1', 'loss 0.500 to 0.250']
    """
    if expected["weights"] != found["weights"]:
        yield "other weights"
    if expected["steps"] != found["steps"]:
        yield f"{plural(expected['steps'], 'step')} to {count(found['steps'])}"
    old, new = expected["parameters"], found["parameters"]
    diverged = [step for step in old if step in new and old[step] != new[step]]
    # JSON keeps the order of keys, and they were written by step: the first is the earliest.
    if diverged:
        yield f"diverged by step {diverged[0]}"
    values = {"loss": expected["loss"], **expected["metrics"]}
    for name, value in {"loss": found["loss"], **found["metrics"]}.items():
        if repr(values.get(name)) != repr(value):  # repr: NaN is what it was, and -0.0 is not 0.0
            yield f"{name} {_from_to(values.get(name), value)}"


def _from_to(old: float | None, new: float | None) -> str:
    """Write two values with as many digits as show that they are not the same.

    >>> _from_to(0.3, 0.25), _from_to(0.3, 0.30001)
    ('0.300 to 0.250', '0.30000 to 0.30001')
    """
    texts = ((measure(old, digits), measure(new, digits)) for digits in range(3, 17))
    pair = next((pair for pair in texts if pair[0] != pair[1]), (repr(old), repr(new)))
    return " to ".join(pair)


def accepted(expected: Sequence[Entry], found: Sequence[Entry]) -> tuple[list[Entry], list[str]]:
    """Make what was found the expectation in its environment; say what moved, a line a run."""
    entries, lines = copy.deepcopy(list(expected)), []
    for entry in found:
        # Entries of other environments stay: they hold on other machines.
        known = _entry(entries, entry["environment"])
        for name, run in entry["runs"].items():
            old = known["runs"].get(name)
            moved = ["new in this environment"] if old is None else list(movements(old, run))
            lines.append(f"{name}: {'; '.join(moved) or 'unchanged'}")
        known["runs"] |= entry["runs"]
    return entries, lines
