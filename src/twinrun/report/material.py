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
    """Every run.json, with its `folder` in results/ and its own `path`."""
    comparisons: list[dict[str, Any]]
    """Every comparison, with the `path` of its JSON in results/ and of its table of `tensors`."""
    contrasts: list[dict[str, Any]]
    """Every comparison of a variant with another, likewise."""
    resumes: list[dict[str, Any]]
    """What the stops of each workload and variant lost."""
    timings: dict[str, dict[str, Any]]
    """Timings by name."""
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
    """
    places = {Path(file).relative_to(results).as_posix(): Path(file) for file in files}

    def matching(pattern: str) -> list[tuple[str, Path]]:
        return [item for item in places.items() if fnmatch.fnmatchcase(item[0], pattern)]

    compared = [
        {**read_json(path), "path": place, "tensors": path.with_suffix(".tensors.csv")}
        for place, path in matching("comparisons/*.json")
    ]
    figures = [(place.removesuffix(".svg"), path) for place, path in matching("figures/*.svg")]
    return Material(
        config=config,
        not_run=not_run,
        verdicts=pd.read_csv(places["verdicts.csv"], dtype=str, keep_default_na=False).to_dict(
            "records"
        ),
        runs=[
            {**read_json(path), "folder": place.removesuffix("/run.json"), "path": path}
            for place, path in matching("runs/*/run.json")
        ],
        comparisons=[found for found in compared if "against" not in found],
        contrasts=[found for found in compared if "against" in found],
        resumes=[read_json(path) for _, path in matching("resumes/*.json")],
        timings={path.stem: read_json(path) for _, path in matching("timings/*.json")},
        datasets={path.stem: read_json(path) for _, path in matching("data/*.json")},
        figures={
            place.removeprefix("figures/"): inline(path, number=number)
            for number, (place, path) in enumerate(figures, start=1)
        },
    )
