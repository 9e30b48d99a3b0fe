"""Expected fingerprints of runs, kept in a user's repository, by the environment they hold in.

A file of them is a JSON list of entries: an `environment` (versions, CPU, instruction set, threads)
and the `runs` that were made in it. What a run should leave is its `weights` (their hash), its
parameters at some steps, its number of steps and its metrics. Runs in an environment that no entry
has are not comparable to anything: other hardware gives other bits, which is no fault.
"""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from twinrun import run_files
from twinrun.errors import TwinrunError
from twinrun.formatting import measure

FINGERPRINT = ("weights", "parameters", "steps", "loss", "metrics")  # of a run

Entry = dict[str, Any]


def observed(runs: Sequence[str | Path]) -> list[Entry]:
    """Describe finished runs as entries, one for each environment.

    Args:
        runs: run.json of each; its steps.csv lies beside it.
    """
    entries: list[Entry] = []
    for run in map(Path, runs):
        manifest = run_files.read_run(run, "steps.csv")
        environment = {
            **manifest["environment"]["identity"],
            "threads": manifest["settings"]["variant"]["threads"],
        }
        name = "{workload}/{variant}/seed{seed}/repeat{repeat}".format(**manifest)
        _entry(entries, environment)["runs"][name] = _fingerprint(run, manifest)
    return entries


def _fingerprint(run: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    steps = pd.read_csv(run.with_name("steps.csv"), dtype={"parameters": str})
    parameters = dict(zip(steps["step"].tolist(), steps["parameters"], strict=True))
    last = manifest["steps"]
    kept = [2**n for n in range(last.bit_length()) if 2**n < last] + [last]
    return {
        "weights": manifest["weights_sha256"],
        "parameters": {str(step): parameters[step] for step in kept if step in parameters},
        "steps": last,
        "loss": float(steps["loss"].iloc[-1]) if last else None,
        "metrics": manifest["metrics"],
    }


def _entry(entries: list[Entry], environment: Mapping[str, Any]) -> Entry:
    """Give the entry of an environment, a new one if there is none."""
    found = next((e for e in entries if e["environment"] == environment), None)
    if found is None:
        found = {"environment": dict(environment), "runs": {}}
        entries.append(found)
    return found


def read(path: str | Path) -> list[Entry]:
    """Read a file of expectations; a file that does not exist holds none.

    Raises:
        TwinrunError: if it is no such file.
    """
    if not Path(path).exists():
        return []
    try:
        entries = json.loads(Path(path).read_text(encoding="utf-8"))
        for entry in entries:
            for run in entry["runs"].values():
                entry["environment"].items(), [run[key] for key in FINGERPRINT]
    except (ValueError, LookupError, TypeError, AttributeError):
        raise TwinrunError(
            f"require.fingerprint: {path} is no file of expected fingerprints; delete it and "
            f"accept what is found (python -m twinrun.gate results/gate.json --accept)"
        ) from None
    return entries


def judge(expected: Sequence[Entry], found: Sequence[Entry]) -> tuple[str, str]:
    """Give `pass`, `fail` or `not comparable`, and why."""
    moved, unknown, kept = [], [], 0
    for entry in found:
        known = next((e for e in expected if e["environment"] == entry["environment"]), None)
        for name, run in entry["runs"].items():
            if known is None:
                unknown.append(_other_environment(expected, entry))
            elif name not in known["runs"]:
                unknown.append(f"nothing is expected of {name}")
            elif run["weights"] != known["runs"][name]["weights"]:
                moved.append(f"{name}: {'; '.join(movements(known['runs'][name], run))}")
            else:
                kept += 1
    if moved:
        return "fail", "; ".join(moved)
    if unknown:
        return "not comparable", "; ".join(dict.fromkeys(unknown))
    return "pass", f"{kept} runs end in the expected weights"


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


def movements(expected: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    """Say what moved between an expected run and the one found.

    >>> old = {"weights": "ab", "parameters": {"1": "x"}, "steps": 1, "loss": 0.5, "metrics": {}}
    >>> list(movements(old, old | {"weights": "cd", "parameters": {"1": "y"}, "loss": 0.25}))
    ['other weights', 'apart by step 1', 'loss 0.500 to 0.250']
    """
    if expected["weights"] != found["weights"]:
        yield "other weights"
    if expected["steps"] != found["steps"]:
        yield f"{expected['steps']} steps to {found['steps']}"
    old, new = expected["parameters"], found["parameters"]
    apart = [step for step in old if step in new and old[step] != new[step]]
    if apart:
        yield f"apart by step {apart[0]}"
    values = {"loss": expected["loss"], **expected["metrics"]}
    for name, value in {"loss": found["loss"], **found["metrics"]}.items():
        if values.get(name) != value:
            yield f"{name} {measure(values.get(name))} to {measure(value)}"


def accepted(expected: Sequence[Entry], found: Sequence[Entry]) -> tuple[list[Entry], list[str]]:
    """Make what was found the expectation in its environment; say what moved, a line a run."""
    entries, lines = copy.deepcopy(list(expected)), []
    for entry in found:
        known = _entry(entries, entry["environment"])
        for name, run in entry["runs"].items():
            old = known["runs"].get(name)
            moved = ["new in this environment"] if old is None else list(movements(old, run))
            lines.append(f"{name}: {'; '.join(moved) or 'unchanged'}")
        known["runs"] |= entry["runs"]
    return entries, lines
