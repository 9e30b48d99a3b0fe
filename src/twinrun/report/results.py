"""What a report is made of: everything the workflow left, read and sorted by its place."""

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from twinrun.artifacts import read_json
from twinrun.report.svg import inline
from twinrun.run_files import FAILED, read_run
from twinrun.timing import epoch_times, summary
from twinrun.timing.epoch_times import Scaling
from twinrun.timing.summary import TimingSummary


@dataclass(frozen=True, kw_only=True)
class Material:
    """The contents of results/ as far as the config asked for them."""

    config: Mapping[str, Any]
    """The config with every default filled in."""
    not_run: Mapping[str, str]
    """Variants that the machine could not run, and why."""
    verdicts: list[dict[str, Any]]
    """Rows of verdicts.csv."""
    runs: list[dict[str, Any]]
    """Every run.json, with its `folder` in results/ and its own `path`; failed trials left out."""
    comparisons: list[dict[str, Any]]
    """The comparison of every seed, with its `study`, the `path` of its JSON in results/ and of its
    table of `tensors`, which is that of all seeds."""
    contrasts: list[dict[str, Any]]
    """Every comparison of a variant with another, likewise."""
    locations: list[dict[str, Any]]
    """Where the pairs of the comparisons part, each with the `path` of its JSON in results/."""
    resumes: list[dict[str, Any]]
    """What the stops of each workload and variant lost."""
    timings: dict[str, TimingSummary]
    """Timings by name."""
    scalings: dict[str, Scaling]
    """What the epochs of one and of several workers took, by workload."""
    rankings: dict[str, dict[str, Any]]
    """The trials of a sweep, by the workload that they vary."""
    matrices: dict[str, dict[str, Any]]
    """Matrices by workload."""
    datasets: dict[str, dict[str, Any]]
    """Manifests of the datasets that were made, by name."""
    figures: dict[str, Markup]
    """Figures by their path in results/figures/ without suffix, ready to stand in a page."""


def read_material(
    config: Mapping[str, Any], not_run: Mapping[str, str], files: Sequence[str], *, results: Path
) -> Material:
    """Read the files of a report.

    Args:
        config: the config with every default filled in.
        not_run: variants that the machine could not run, and why.
        files: paths inside `results`.
        results: the results folder.

    Raises:
        TwinrunError: if a manifest of a run is not as the run wrote it.
    """
    places = {Path(file).relative_to(results).as_posix(): Path(file) for file in files}

    def matching(pattern: str) -> list[tuple[str, Path]]:
        return [item for item in places.items() if fnmatch.fnmatchcase(item[0], pattern)]

    compared = [
        {
            **entry,
            "study": place.split("/")[1],
            "path": place,
            "tensors": path.with_suffix(".tensors.csv"),
        }
        for place, path in matching("comparisons/*.json")
        for entry in read_json(path)
    ]
    found = [
        {**read_run(path), "folder": place.removesuffix("/run.json"), "path": path}
        for place, path in matching("runs/*/run.json")
    ]
    figures = [(place.removesuffix(".svg"), path) for place, path in matching("figures/*.svg")]
    return Material(
        config=config,
        not_run=not_run,
        verdicts=pd.read_csv(places["verdicts.csv"], dtype=str, keep_default_na=False).to_dict(
            "records"
        ),
        runs=[run for run in found if not run["ended"].startswith(FAILED)],
        comparisons=[pair for pair in compared if pair["against"] is None],
        contrasts=[pair for pair in compared if pair["against"]],
        locations=[
            {**entry, "path": place}
            for place, path in matching("locations/*.json")
            for entry in read_json(path)
        ],
        resumes=[read_json(path) for _, path in matching("resumes/*.json")],
        timings={path.stem: summary.read(path) for _, path in matching("timings/*.json")},
        scalings={path.stem: epoch_times.read(path) for _, path in matching("scaling/*.json")},
        rankings={path.stem: read_json(path) for _, path in matching("sweeps/*.json")},
        matrices={path.stem: read_json(path) for _, path in matching("matrix/*.json")},
        datasets={path.stem: read_json(path) for _, path in matching("data/*.json")},
        figures={
            place.removeprefix("figures/"): inline(path, number=number)
            for number, (place, path) in enumerate(figures, start=1)
        },
    )
