"""What a gate judged, and whether it is what is there now: config, results, settings of runs.

A judgement lies in a file, and outlives what it is about: a config that was edited and then
refused, results that another command made again, runs of other settings that Snakemake was told not
to make again (`--rerun-triggers mtime`). None of them may pass unseen.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypedDict

from twinrun import artifacts
from twinrun.config.config_files import hash_of_config_file
from twinrun.gate.outcome import GateOutcome
from twinrun.gate.stale import MOST_NAMED
from twinrun.run_files import left_network, read_ended


class Planned(TypedDict):
    """What the config says now, as plain values."""

    workloads: dict[str, dict[str, object]]
    """By name, with all settings."""
    variants: dict[str, dict[str, object]]
    """Likewise."""
    datasets: dict[str, str | None]
    """The file that each workload reads; None without a dataset."""
    studies: dict[str, list[str]]
    """The workloads of each study whose verdicts may be required."""
    configs: dict[str, str]
    """Hashes of what the config files say, by their paths."""
    config: str
    """Hash of the whole config."""


def hashes_of(files: Iterable[str | Path]) -> dict[str, str]:
    """Return the SHA-256 of each file that is there, by its path."""
    return {str(file): artifacts.sha256(file) for file in files if Path(file).is_file()}


def why_not_judged(found: GateOutcome, folder: Path, config: str | None) -> Iterator[str]:
    """Say why what was judged is not what there is to judge now.

    Args:
        found: what was judged.
        folder: the working directory that the paths in it are relative to.
        config: hash of the whole config as it is now; None where only its files are known.
    """
    changed = [
        name
        for name, digest in found["configs"].items()
        if hash_of_config_file(folder / name) != digest
    ]
    if not changed and config not in (None, found["config"]):
        changed = ["the config"]
    results = [
        name
        for name, digest in found["judged"].items()
        if not (folder / name).is_file() or artifacts.sha256(folder / name) != digest
    ]
    if len(results) > MOST_NAMED:
        results[MOST_NAMED - 1 :] = [f"{len(results) - MOST_NAMED + 1} other results"]
    if changed or results:
        yield (
            f"{', '.join([*changed, *results])} changed since the gate judged: judge again, with "
            f"your --configfile (snakemake --cores all gate --forcerun require)"
        )


def other_settings(runs: Iterable[str | Path], planned: Planned) -> Iterator[str]:
    """Say of each run that is not what the config now asks for which of its settings differ."""
    for run in runs:
        if not Path(run).is_file():
            continue  # the gate says so
        manifest = read_ended(run)
        asked = {
            "workload": planned["workloads"].get(manifest["workload"], {}),
            "variant": planned["variants"].get(manifest["variant"], {}),
        }
        had = manifest["settings"]
        differing = [
            f"{key} is {_shown(wanted)} in the config and {_shown(got)} in the run"
            for kind, settings in (("workload", had["workload"]), ("variant", had["variant"]))
            for key, wanted in asked[kind].items()
            # As text: what was written as JSON has lists for tuples.
            if _shown(got := settings.get(key)) != _shown(wanted)
        ]
        data = manifest["data"] if left_network(manifest) else None
        file = planned["datasets"].get(manifest["workload"])
        if data is not None and file is not None and data["path"] != file:
            differing.append(f"dataset is {file} in the config and {data['path']} in the run")
        if differing:
            yield f"{run} was made with other settings: {', '.join(differing)}"


def _shown(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)
