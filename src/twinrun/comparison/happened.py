"""Whether what a variant asks for happened in a run: settings, compilation, stop and resumption.

What did not happen cannot be called equal: the bits are those of a training that nothing was
changed in.

A process that a variant ends at its `stop` leaves four kinds of runs: the training never came to
that point and ended whole; it was stopped, and its checkpoint refused, so that the second process
trained from the beginning; it was resumed and broke off; it was resumed and finished. Only the
last ends in bits that say something about resuming.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import msgspec

from twinrun.comparison.conditions import outputs_that_differ
from twinrun.comparison.pair_records import Comparison
from twinrun.config.shipped import SCHEMA
from twinrun.process.found_files import disturbed_by
from twinrun.run_files import variant_of
from twinrun.run_records import Departure, RunManifest, is_in_part

# Of settings that do nothing by themselves: what else a run must have, and how to say it.
SEVERAL = "the training has one worker"
NEEDS = {
    "persistent_workers": ("data_workers", "there are no data workers to be kept"),
    "sharding": ("devices", SEVERAL),
    "scale_batch_with_devices": ("devices", SEVERAL),
    "batch_norm": ("devices", SEVERAL),
    "fill_uninitialized_memory": ("deterministic", "the algorithms are not the deterministic ones"),
}
# What is read from the training itself, so that a change which nothing came of is seen.
READ = (
    *("threads", "deterministic", "precision", "devices", "accelerator", "accumulate"),
    *("data_workers", "persistent_workers", "validation", "fill_uninitialized_memory"),
    *("optimizer", "layout", "batch_norm", "checkpointing", "logging"),
)
FORMS = ("optimizer", "layout")  # of a step: see `acceleration.in_effect`
OF_STOPS = ("stop", "resume")


def not_in_effect(manifests: Sequence[RunManifest]) -> list[str]:
    """Say which settings the runs were to have and did not have, each reason once.

    Of runs of two variants the settings in which these differ count, unless another of them did
    take effect (see `without_effect_in_part`); of repeats those that the variant sets to other
    values than every variant has by default.

    Args:
        manifests: of finished runs, the first first.
    """
    first, *others = manifests
    reasons: list[str] = []
    for other in others:
        asked = asdict(variant_of(other))
        changed = _changed(first, other)
        if changed:
            without, is_any_in_effect = _of_change(first, other, changed)
            reasons += [] if is_any_in_effect else [text for _, text in without]
        elif first["seed"] == other["seed"]:
            own = [name for name, value in asked.items() if value != _defaults().get(name)]
            reasons += [text for run in (first, other) for text in _departures(run, own)]
            reasons += [text for run in (first, other) for text in _not_compiled(run)]
    return list(dict.fromkeys(reasons))


def not_to_be_believed(found: Comparison, manifests: Sequence[RunManifest]) -> list[str]:
    """Say why the answer of a comparison is none of what the runs' variants say.

    Args:
        found: of the runs, equal or not.
        manifests: as for `not_in_effect`.
    """
    left = [run["found_files"] for run in manifests if "found_files" in run]
    if disturbed := [*dict.fromkeys(filter(None, map(disturbed_by, left)))]:
        return disturbed  # it was another run's
    reasons, is_equal = not_in_effect(manifests), found["answer"] == "equal"
    if variant_of(manifests[0]) == variant_of(manifests[-1]):
        return reasons if is_equal else []  # repeats that differ do so whatever they are called
    # What differs beside the weights was lost even so.
    if is_equal and not outputs_that_differ(found):
        reasons += filter(None, map(nothing_left, manifests))
    return reasons


def departures_of(manifests: Sequence[RunManifest]) -> list[Departure]:
    """Return where the runs depart from their variants, what several do once."""
    found: list[Departure] = []
    for manifest in manifests:
        found += [departure for departure in manifest["departures"] if departure not in found]
    return found


def without_effect_in_part(manifests: Sequence[RunManifest]) -> list[Departure]:
    """Say which changed settings came to nothing where another one took effect, each once.

    Args:
        manifests: as for `not_in_effect`.
    """
    first, *others = manifests
    found: dict[str, Departure] = {}
    for other in others:
        without, is_any_in_effect = _of_change(first, other, _changed(first, other))
        for name, text in without if is_any_in_effect else []:
            # What one run departs in by itself is said already.
            own = [each["setting"] for run in (first, other) for each in run["departures"]]
            if name not in own:
                found[name] = {"setting": name, "sentence": f"in part, {text}", "in_part": True}
    return list(found.values())


def _changed(first: RunManifest, other: RunManifest) -> list[str]:
    """Name the settings in which the variants of two runs differ."""
    asked, known = asdict(variant_of(other)), asdict(variant_of(first))
    return [name for name in asked if asked[name] != known[name]]


def _of_change(
    first: RunManifest, other: RunManifest, changed: Sequence[str]
) -> tuple[list[tuple[str, str]], bool]:
    """Return the changes between two runs that did not happen, and whether any other one did."""
    without: list[tuple[str, str]] = []
    is_any_in_effect = False
    for name in changed:
        found = _of_setting(first, other, name, changed)
        if isinstance(found, str):
            without.append((name, found))
        is_any_in_effect = is_any_in_effect or found is True
    return without, is_any_in_effect


def _of_setting(
    first: RunManifest, other: RunManifest, name: str, changed: Sequence[str]
) -> str | bool:
    """Say why a change between two runs did not happen; True if it did, False if nobody knows."""
    runs = (first, other)
    if name == "compile" and (found := [text for run in runs for text in _not_compiled(run)]):
        return found[0]
    if departed := [*_departures(other, [name]), *_departures(first, [name])]:
        return departed[0]
    if name == "environment" and (same := _of_instruction_set(first, other)):
        return same
    if name in OF_STOPS:
        return any(run["resumed_at"] for run in runs)
    actual, before = other["actual"], first["actual"]
    if actual is None or before is None:
        return False
    if (need := NEEDS.get(name)) and not any(_has(run, need[0]) for run in (actual, before)):
        return f"{name} changes nothing here: {need[1]}"
    # Of a step made fast in several ways each is looked at in the run itself.
    is_fast = {"compile", "cuda_graph"} & set(changed)
    if name in FORMS and (is_fast or not _is_known(name, actual)):
        return False
    if name in READ and actual[name] == before[name]:
        return _unchanged(name, actual[name])
    return True


def _of_instruction_set(first: RunManifest, other: RunManifest) -> str | None:
    """Say that two runs have one instruction set, where nothing but that was to be changed.

    torch ignores what it cannot read with a warning, and the CPU's best is its default.
    """
    asked = [set(variant_of(run).environment.items()) for run in (first, other)]
    changed = {name for name, _ in asked[0] ^ asked[1]}
    if changed != {"ATEN_CPU_CAPABILITY"}:
        return None
    sets = [run["environment"]["identity"]["cpu_capability"] for run in (first, other)]
    return f"torch computes by {sets[0]} in both runs" if sets[0] == sets[1] else None


def _not_compiled(run: RunManifest) -> list[str]:
    """Say of a run that was to compile something that it did not."""
    compilation = run["compilation"]
    # By torch's own counter: that something was to be compiled proves nothing.
    is_compiled = compilation is not None and compilation["compilations"] > 0
    return [] if variant_of(run).compile == "none" or is_compiled else ["nothing was compiled"]


def _unchanged(name: str, value: object) -> str:
    if name == "validation":
        return "the training has no validation"
    shown = ", ".join(map(str, value)) or "default" if isinstance(value, list) else value
    return f"{name} is {shown} in both runs"


def _is_known(name: str, actual: Mapping[str, object]) -> bool:
    # Nobody sees the updates of compiled and captured steps; of layouts none is an answer.
    return name == "layout" or bool(actual[name])


def _departures(run: RunManifest, settings: Sequence[str]) -> list[str]:
    return [
        found["sentence"]
        for found in run["departures"]
        if found["setting"] in settings and not is_in_part(found)
    ]


def _has(actual: Mapping[str, object], name: str) -> bool:
    """Say whether a run has several devices, a data worker, or what is a plain yes or no."""
    value = actual[name]
    if isinstance(value, list):
        return any(value)
    return value > 1 if type(value) is int else bool(value)


@functools.cache
def _defaults() -> Mapping[str, object]:
    """Return what a variant has that says nothing."""
    schema = msgspec.yaml.decode(SCHEMA.read_bytes())
    settings = schema["properties"]["variants"]["additionalProperties"]["properties"]
    return {name: entry["default"] for name, entry in settings.items() if "default" in entry}


def why_not_resumed(manifest: RunManifest) -> str | None:
    """Say why a run that was to be stopped and resumed was not.

    Returns:
        None for a run that was resumed, that broke off when it was, or that was not to be stopped.
    """
    stop = variant_of(manifest).stop
    if stop == "none" or manifest["resumed_at"]:
        return None
    if not manifest["was_stopped"]:
        if manifest["ended"] != "finished":
            return f"the training ended before this point ({manifest['ended']})"
        if stop in ("before_validation", "after_validation"):
            return "the training has no validation"
        return "the training never comes to this point"
    if manifest["not_resumed"] is not None:
        return f"the checkpoint was refused: {manifest['not_resumed']}"
    # Its checkpoint was taken, and loading it broke off: that is a result, not a missing stop.
    return None


def nothing_left(manifest: RunManifest) -> str | None:
    """Say why bits of a resumed run that are equal show nothing: no step came after the stop."""
    at = manifest["resumed_at"]
    is_stopped = variant_of(manifest).stop != "none" and manifest["ended"] == "finished"
    if is_stopped and at and manifest["steps"] <= at[-1]:
        return "no step was left to train after this stop; give the workload another epoch"
    return None


def not_changed(first: RunManifest, other: RunManifest) -> str | None:
    """Say why a run is not the first one with a change; None where the change took effect."""
    reason = why_not_resumed(other)
    if first["weights_sha256"] == other["weights_sha256"]:
        reason = reason or nothing_left(other)
    return reason or "; ".join(not_in_effect([first, other])) or None


def what_did_not_happen(manifest: RunManifest) -> str | None:
    """Say what the variant asks for and the finished run did not do; None if it did everything."""
    return next(iter(_not_compiled(manifest)), None) or why_not_resumed(manifest)
