"""What a gate judged, and whether it is what is there now: config, results, settings of runs.

A judgement lies in a file, and outlives what it is about: a config that was edited and then
refused, results that another command made again, runs of other settings that Snakemake was told not
to make again (`--rerun-triggers mtime`). None of them may pass unseen.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TypedDict

from twinrun import artifacts
from twinrun.config.config_files import hash_of_config_file
from twinrun.gate import expected_fingerprints
from twinrun.gate.outcome import GateLine, GateOutcome
from twinrun.gate.stale import MOST_NAMED
from twinrun.process.planned_code import added_since
from twinrun.run_files import left_network, read_ended
from twinrun.timing import summary


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
    runs: dict[str, list[str]]
    """The run.json of each run behind a requirement, by its name."""
    configs: dict[str, str]
    """Hashes of what the config files say, by their paths."""
    config: str
    """Hash of the whole config."""
    beside: dict[str, list[str]]
    """The modules in each folder that the users' modules are imported from."""


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
    added = added_since(found["beside"], folder)
    if added:
        yield (
            f"{', '.join(_few(added))} {'is' if len(added) == 1 else 'are'} new beside the modules "
            f"of the runs, since the gate judged, and may be imported too: judge again, with your "
            f"--configfile (twinrun gate), which trains again if so"
        )
    if changed or results:
        # Snakemake makes nothing again that is there; of runs and timings see `stale`.
        cheap = [name for name in results if not {"runs", "timings"} & {*Path(name).parts}]
        again = " ".join(["require", *(cheap if len(cheap) <= MOST_NAMED else ())])
        yield (
            f"{', '.join([*changed, *_few(results)])} changed since the gate judged: judge again, "
            f"with your --configfile (twinrun gate --forcerun {again})"
        )


def _few(names: list[str]) -> list[str]:
    """Name so many that a line stays one."""
    if len(names) <= MOST_NAMED:
        return names
    return [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} others"]


def lines_now(found: GateOutcome, folder: Path) -> list[GateLine]:
    """Return what was judged, with the fingerprints as the file expects them now.

    The file may have been accepted into, or come with another commit, since.
    """
    lines, file = list(found["lines"]), found["fingerprint"]
    for index, line in enumerate(lines):
        if file is not None and line["requirement"] == f"fingerprint: {file}":
            outcome, why = expected_fingerprints.outcome_now(folder / file, found["found"])
            lines[index] = {**line, "outcome": outcome, "why": why}
            break  # further ones are of trainings that failed
    return lines


def other_settings(
    runs: Iterable[str | Path], planned: Planned, timings: Iterable[str | Path] = ()
) -> Iterator[str]:
    """Say of each run and timing that is not what the config now asks for which settings differ."""
    for run in runs:
        if not Path(run).is_file():
            continue  # the gate says so
        manifest = read_ended(run)
        settings = manifest["settings"]
        workload = planned["workloads"].get(manifest["workload"], {})
        variant = planned["variants"].get(manifest["variant"], {})
        differing = [
            *_differing(workload, settings["workload"], "run"),
            *_differing(variant, settings["variant"], "run"),
        ]
        data = manifest["data"] if left_network(manifest) else None
        file = planned["datasets"].get(manifest["workload"])
        if data is not None and file is not None and data["path"] != file:
            differing.append(f"dataset is {file} in the config and {data['path']} in the run")
        if differing:
            yield f"{run} was made with other settings: {', '.join(differing)}"
    for each in timings:
        if not Path(each).is_file():
            continue  # the gate says so
        timing = summary.read(each)
        settings = timing["settings"]
        workload = planned["workloads"].get(timing["workload"], {})
        differing = list(_differing(workload, asdict(settings["workload"]), "timing"))
        for name, variant in settings["variants"].items():
            wanted = planned["variants"].get(name, {})
            differing += [f"{name}: {it}" for it in _differing(wanted, asdict(variant), "timing")]
        if differing:
            yield f"{each} was made with other settings: {', '.join(differing)}"


def _differing(asked: Mapping[str, object], had: Mapping[str, object], kind: str) -> Iterator[str]:
    for key, wanted in asked.items():
        # As text: what was written as JSON has lists for tuples.
        if _shown(got := had.get(key)) != _shown(wanted):
            yield f"{key} is {_shown(wanted)} in the config and {_shown(got)} in the {kind}"


def _shown(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)
