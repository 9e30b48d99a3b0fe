"""What no schema can say of a config: names that do not exist, settings that contradict each other.

A setting that would change nothing is a mistake too: who wrote it expects something of it, and the
report would seem to say that it makes no difference.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import convert

from twinrun.config import (
    candidates,
    matrix_cells,
    requirements,
    resume_variants,
    trainer_consistency,
)
from twinrun.config.definitions import Section, Variant
from twinrun.config.schema_check import validate
from twinrun.config.sound_part import SoundPart
from twinrun.config.sweep_trials import alike, trials
from twinrun.config.variant_consistency import impossible, traced_unlike, without_effect
from twinrun.errors import TwinrunError
from twinrun.wording import shown, suggestion

LONGEST_TRIAL = 200  # letters of a folder's name; file systems end at 255


def contradictions(part: SoundPart, schema: Section, given: Section) -> list[str]:
    """Return a sentence for each; a mistake that follows from another one is not said.

    Args:
        part: what the schema finds nothing wrong in, with every default.
        schema: a part of it is asked of each change of the matrix.
        given: the config before defaults were filled in: what somebody wrote.
    """
    sound = SoundPart(
        config={
            **part.config,
            "studies": [name for name in part.config["studies"] if not part.is_wrong(name)],
        },
        wrong=part.wrong,
    )
    return [
        *_of_names(part),
        *_of_variants(sound, given),
        *_of_traces(sound),
        *_of_matrix(sound, schema),
        *_of_sweep(sound.config),
        *_of_noise(sound.config),
        *candidates.contradictions(sound),
        *_of_stops(sound.config, schema),
        *_of_resume(sound.config),
        *requirements.contradictions(part),
    ]


def _of_names(part: SoundPart) -> Iterator[str]:
    """Find names that do not exist, and trials that cannot be."""
    config = part.config
    for name, workload in config["workloads"].items():
        dataset = workload["dataset"]
        if dataset is not None and not part.may_name("datasets", dataset):
            known = suggestion(dataset, list(config["datasets"]))
            yield f"workloads.{name}.dataset: no dataset is called {shown(dataset)}{known}"
        # Of one that is wrong nobody knows how long it trains.
        if not part.is_wrong("workloads", name, "trainer"):
            yield from trainer_consistency.contradictions(name, workload)
    for name, dataset in config["datasets"].items():
        if "file" in dataset:
            yield from _of_file(f"datasets.{name}.file", dataset["file"])
        if dataset["shows"] and not dataset.get("file", ".npz").endswith(".npz"):
            file = shown(dataset["file"])
            yield f"datasets.{name}.shows: {file} is no .npz, of which alone images can be drawn"
    for study in config["studies"]:
        for key in ("workloads", "variants"):
            is_list = isinstance(config[study], Mapping) and not part.is_wrong(study, key)
            for index, name in enumerate(config[study].get(key, []) if is_list else []):
                if not part.may_name(key, name):
                    known = suggestion(name, list(config[key]))
                    yield f"{study}.{key}.{index}: no {key[:-1]} is called {shown(name)}{known}"


def _of_file(key: str, file: str) -> Iterator[str]:
    if {*"{}"} & {*file}:
        yield f"{key}: {shown(file)} has braces, which Snakemake takes for wildcards; rename it"
    # os.path: a Path raises on names that no file system takes.
    if os.path.isdir(file):  # noqa: PTH112
        if not os.listdir(file):  # noqa: PTH208
            yield f"{key}: the folder {shown(file)} is empty"
        from twinrun.dataset_files import state_of, written_by_the_workflow  # imports NumPy

        if (written := written_by_the_workflow(file)) is not None:
            yield (
                f"{key}: the folder {shown(file)} holds {written}, where the workflow writes, so "
                f"that the data would change with each result; put it into a folder of its own"
            )
            return
        try:
            state_of(file)
        except TwinrunError as error:
            yield f"{key}: {error}"
    elif not os.path.isfile(file):  # noqa: PTH113
        where = "" if os.path.isabs(file) else " (looked for in the working directory)"  # noqa: PTH117
        yield f"{key}: {shown(file)} is neither a file nor a folder{where}"
    elif not os.path.getsize(file):  # noqa: PTH202
        yield f"{key}: the file {shown(file)} is empty"


def _of_variants(part: SoundPart, given: Section) -> Iterator[str]:
    """Find settings of variants that exclude each other, or have no effect."""
    for name, variant in part.config["variants"].items():
        if part.is_wrong("variants", name):
            continue
        written = given.get("variants", {}).get(name, {})
        settings = convert(variant, Variant)
        for problem in [*impossible(settings), *without_effect(settings, written)]:
            yield f"variants.{name}.{problem}"


def _of_traces(part: SoundPart) -> Iterator[str]:
    """Find variants that are compared and not traced alike."""
    # Of a wrong variant nobody knows how it is traced.
    known = {n: v for n, v in part.config["variants"].items() if not part.is_wrong("variants", n)}
    studies = [name for name in part.config["studies"] if not part.is_wrong(name)]
    yield from traced_unlike({**part.config, "variants": known, "studies": studies})


def _of_sweep(config: Section) -> Iterator[str]:
    """Find trials that cannot be."""
    if "sweep" not in config["studies"]:
        return
    # Values that are written alike, such as 1 and "1", would share a folder.
    names = Counter(name for name, _, _ in trials(config))
    for name, count in names.items():
        if count > 1:
            yield f"sweep.trials: the trial {shown(name)} is there twice"
        if len(name) > LONGEST_TRIAL:
            yield f"sweep.trials: {shown(name)} is too long for a folder's name, vary less at once"
    for one, other, is_same in alike(config):
        if is_same:
            yield (
                f"sweep.trials: {shown(other)} is given the hyperparameters of {shown(one)}, and "
                f"is the same training; leave one out"
            )


def _of_noise(config: Section) -> Iterator[str]:
    """Find a scale that nothing could be put on."""
    asked = config["noise"]
    if "noise" in config["studies"] and len(asked["seeds"]) == asked["perturbations"] == 1:
        yield (
            "noise.perturbations: 1 beside one seed decides nothing, since two runs of a kind make "
            "a scale; name 2 perturbations or 3 seeds at least"
        )


def _of_stops(config: Section, schema: Section) -> Iterator[str]:
    """Find stops in the second epoch of a training that has one."""
    known = config["variants"]
    for study in config["studies"]:
        asked = config[study]
        variants = {name: known[name] for name in asked.get("variants", []) if name in known}
        if study == "matrix" and asked["baseline"] in known:
            baseline = known[asked["baseline"]]
            changed = {
                f"matrix.changes.{index}": matrix_cells.with_change(baseline, change)
                for index, change in enumerate(asked["changes"])
                if not validate(change, _schema_of_variant(schema)).mistakes
            }
            variants |= {asked["baseline"]: baseline, **changed}
        for name, variant in variants.items():
            for index, workload in enumerate(asked["workloads"]):
                if workload not in config["workloads"]:
                    continue
                epochs = asked.get("epochs") or trainer_consistency.epochs_of(
                    config["workloads"][workload]
                )
                if variant["stop"] != "none" and epochs == 1:
                    key = name if name.startswith("matrix.changes.") else f"variants.{name}"
                    yield (
                        f"{key}.stop: {variant['stop']} is in the second epoch, but "
                        f"{study}.workloads.{index}, {workload}, trains 1; it needs 2"
                    )


_LEAVE_OUT = "; leave mid_accumulation, which accumulates, out of resume.stops"


def _of_resume(config: Section) -> Iterator[str]:
    """Find what cannot be stopped: trainings of one epoch, variants that its settings exclude."""
    if "resume" not in config["studies"]:
        return
    asked = config["resume"]
    for index, name in enumerate(asked["workloads"]):
        workload = config["workloads"].get(name)
        if workload is not None and trainer_consistency.epochs_of(workload) == 1:
            yield f"resume.workloads.{index}: {name} trains 1 epoch, a stop in the second needs 2"
    for index, name in enumerate(asked["variants"]):
        if name in config["variants"]:
            settings = config["variants"][name]
            stopped = resume_variants.variants(name, settings, asked["stops"])
            own = [*impossible(convert(settings, Variant))]  # said of the variant itself
            problems = dict.fromkeys(
                problem + (_LEAVE_OUT if problem.startswith("accumulate:") else "")
                for variant in stopped.values()
                for problem in impossible(convert(variant, Variant))
                if problem not in own
            )
            yield from (f"resume.variants.{index}: {problem}" for problem in problems)
            yield from matrix_cells.names_taken(config, stopped, f"resume.variants.{index}")


def _schema_of_variant(schema: Section) -> Section:
    return {"$defs": schema["$defs"], **schema["properties"]["variants"]["additionalProperties"]}


def _of_matrix(part: SoundPart, schema: Section) -> Iterator[str]:
    """Check each changed baseline as a variant is checked."""
    config = part.config
    if "matrix" not in config["studies"]:
        return
    matrix = config["matrix"]
    if not part.may_name("variants", matrix["baseline"]):
        known = suggestion(matrix["baseline"], list(config["variants"]))
        yield f"matrix.baseline: no variant is called {shown(matrix['baseline'])}{known}"
    baseline = config["variants"].get(matrix["baseline"])
    is_doubtful = baseline is None or part.is_wrong("variants", matrix["baseline"])
    for index, change in enumerate(matrix["changes"]):
        # A change is a part of a variant: the same schema says what it may be.
        found = validate(change, _schema_of_variant(schema)).mistakes
        if not found and not is_doubtful:
            # What the baseline has counts: a change may contradict only that.
            variant = convert(matrix_cells.with_change(baseline, change), Variant)
            filled = change.get("fill_uninitialized_memory") is False
            found = [*impossible(variant), *without_effect(variant, change)]
            if filled and not variant.deterministic:
                found.append(
                    "fill_uninitialized_memory: false has no effect without deterministic: true"
                )
        yield from (f"matrix.changes.{index}.{problem}" for problem in found)
    if not is_doubtful:
        yield from matrix_cells.contradictions(config)
