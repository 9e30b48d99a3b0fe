"""What no schema can say of a config: names that do not exist, settings that exclude others."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from twinrun.config import matrix_cells, resume_variants
from twinrun.config.schema_check import suggestion, validate
from twinrun.config.sweep_trials import trials

LONGEST_TRIAL = 200  # letters of a folder's name; file systems end at 255


def contradictions(config: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """Give a sentence for each; what builds on other keys is looked at once those are right.

    Args:
        config: valid in the eyes of the schema, with every default.
        schema: a part of it is asked of each change of the matrix.
    """
    return (
        [*_of_names(config), *_of_matrix(config, schema)]
        or list(_of_resume(config))
        or list(_of_gate(config))
    )


def _of_names(config: Mapping[str, Any]) -> Iterator[str]:
    """Find names that do not exist, and trials that cannot be."""
    for name, workload in config["workloads"].items():
        dataset = workload["dataset"]
        if dataset is not None and dataset not in config["datasets"]:
            known = suggestion(dataset, list(config["datasets"]))
            yield f"workloads.{name}.dataset: no dataset is called {dataset!r}{known}"
    for name, dataset in config["datasets"].items():
        # os.path: a Path raises on names that no file system takes.
        if "file" in dataset and not os.path.isfile(dataset["file"]):  # noqa: PTH113
            yield f"datasets.{name}.file: {dataset['file']!r} is not a file"
    for name, variant in config["variants"].items():
        yield from (f"variants.{name}.{problem}" for problem in _impossible(variant))
    for study in config["studies"]:
        for key in ("workloads", "variants"):
            for index, name in enumerate(config[study].get(key, [])):
                if name not in config[key]:
                    known = suggestion(name, list(config[key]))
                    yield f"{study}.{key}.{index}: no {key[:-1]} is called {name!r}{known}"
    if "sweep" in config["studies"]:
        names = [name for name, _, _ in trials(config)]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"sweep.trials: the trial {name} is there twice"
        for name in names:
            if len(name) > LONGEST_TRIAL:
                yield f"sweep.trials: {name} is too long for a folder's name, vary less at once"


def _impossible(variant: Mapping[str, Any]) -> Iterator[str]:
    """Find settings of a variant that exclude each other."""
    if variant["persistent_workers"] and not variant["data_workers"]:
        yield "persistent_workers: true needs data_workers of 1 or more"
    if variant["accumulate"] > 1 and variant["devices"] > 1:
        yield f"accumulate: {variant['accumulate']} needs devices: 1, not {variant['devices']}"
    if variant["devices"] % variant["nodes"]:
        yield f"nodes: {variant['nodes']} machines cannot evenly share {variant['devices']} workers"
    if variant["stop"] != "none" and variant["devices"] > 1:
        yield f"stop: {variant['stop']} needs devices: 1, not {variant['devices']}"
    if variant["layout"] == "features_first" and variant["compile"] == "none":
        yield "layout: features_first needs `compile: step` or `module`"
    if variant["compile"] == "step" and variant["optimizer"] != "default":
        yield "optimizer: `compile: step` fuses it by itself, leave it out"
    if variant["compile"] != "step" and not variant["cuda_graph"]:
        return
    key = "compile: step" if variant["compile"] == "step" else "cuda_graph: true"
    for name in ("devices", "accumulate"):
        if variant[name] > 1:
            yield f"{name}: {key} takes a step in one piece and needs {name}: 1"
    if variant["precision"] == "16-mixed":
        yield f"precision: 16-mixed scales gradients, for which {key} leaves no room"


def _of_resume(config: Mapping[str, Any]) -> Iterator[str]:
    """Find what cannot be stopped: trainings of one epoch, variants that its settings exclude."""
    if "resume" not in config["studies"]:
        return
    asked = config["resume"]
    for index, name in enumerate(asked["workloads"]):
        if config["workloads"].get(name, {}).get("epochs") == 1:
            yield f"resume.workloads.{index}: {name} trains 1 epoch, a stop in the second needs 2"
    for index, name in enumerate(asked["variants"]):
        if name in config["variants"]:
            stopped = resume_variants.variants(name, config["variants"][name], asked["stops"])
            problems = dict.fromkeys(p for v in stopped.values() for p in _impossible(v))
            yield from (f"resume.variants.{index}: {problem}" for problem in problems)


def _of_matrix(config: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    """Hold each changed baseline to what is asked of a variant."""
    if "matrix" not in config["studies"]:
        return
    matrix = config["matrix"]
    if matrix["baseline"] not in config["variants"]:
        known = suggestion(matrix["baseline"], list(config["variants"]))
        yield f"matrix.baseline: no variant is called {matrix['baseline']!r}{known}"
        return
    schema = {"$defs": schema["$defs"], **schema["properties"]["variants"]["additionalProperties"]}
    baseline = config["variants"][matrix["baseline"]]
    for index, change in enumerate(matrix["changes"]):
        found = validate(change, schema)[1] or list(_impossible({**baseline, **change}))
        yield from (f"matrix.changes.{index}.{problem}" for problem in found)
    yield from matrix_cells.contradictions(config)


def _of_gate(config: Mapping[str, Any]) -> Iterator[str]:
    """Find requirements about what is not in the config."""
    repeated = config["reproducibility"]["variants"]
    studies = {f"{variant}_pair": "reproducibility" for variant in repeated} | {
        "determinism_cost": "reproducibility",
        "fingerprint": "reproducibility",
        "resume": "resume",
        "matrix": "matrix",
    }
    for name, wanted in config["require"].items():
        if name not in studies:
            yield f"require.{name}: unknown key{suggestion(name, list(studies))}"
        elif studies[name] not in config["studies"]:
            yield f"require.{name}: needs the study {studies[name]}, add it to studies"
        elif name == "matrix":
            known = [cell.name for cell in matrix_cells.cells(config["matrix"])]
            for index, cell in enumerate(wanted):
                if cell not in known:
                    near = suggestion(cell, known)
                    yield f"require.matrix.{index}: no cell is called {cell!r}{near}"
        elif name == "fingerprint" and not any(
            config["variants"][variant]["deterministic"] for variant in repeated
        ):
            yield "require.fingerprint: no variant of reproducibility is deterministic"
