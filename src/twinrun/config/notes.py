"""What is said of a sound config before any job starts: what it asks for and will not get."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from twinrun.config.definitions import Section
from twinrun.config.shipped import STANDARD
from twinrun.config.sweep_trials import alike

if TYPE_CHECKING:  # settings import this module
    from twinrun.config.settings import Settings


def notes_on(settings: "Settings") -> Iterator[str]:
    """Say what cannot run here, what no timing measures, what no study trains or can decide."""
    for study in settings.studies:
        for name, why in settings.not_run_of(study).items():
            yield f"{study}: the variant {name} is not run: {why}"
        for name, why in settings.untimed_of(study).items():
            yield f"{study}: the variant {name} is trained and not timed: {why}"
    for cell in settings.listed_cells():
        if cell["not_run"] is not None:
            yield f"matrix: the cell {cell['name']} is not run: {cell['not_run']}"
    # Of ours most configs leave some out; of the user's own nobody means to.
    named = {*_standard()["workloads"], *settings.active_workloads()}
    for name in settings.config["workloads"]:
        if name not in named:
            yield (
                f"workloads.{name}: not trained, since no study names it (chosen: "
                f"{', '.join(settings.studies)}); put it under {settings.studies[0]}.workloads"
            )
    ours = _standard()["workloads"]
    if own := [name for name in settings.active_workloads() if name not in ours]:
        yield from _of_ours_alone(settings, own)
    yield from _undecided(settings)


def _of_ours_alone(settings: "Settings", own: Sequence[str]) -> Iterator[str]:
    """Say which study trains built-in workloads and none of the user's."""
    for study in settings.studies:
        names = settings.config[study]["workloads"]
        if names and {*own}.isdisjoint(names):
            yield (
                f"{study}: trains {', '.join(names)}, built in, and none of yours; name them "
                f"under {study}.workloads, such as [{own[0]}]"
            )


def _undecided(settings: "Settings") -> Iterator[str]:
    """Say which question of a study has no answer, however its runs end."""
    config, studies = settings.config, settings.studies
    for study in (name for name in ("acceleration", "parallel") if name in studies):
        names = config[study]["variants"]
        if len(names) == 1:
            yield f"{study}: {names[0]} is the only variant, and is compared with no other"
    if "sweep" in studies and len(config["sweep"]["variants"]) == 1:
        for name in config["sweep"]["workloads"]:
            if len(settings.trials_of(name)) == 1:
                yield f"sweep: {name} has one trial, which is ranked among no others"
    for one, other, is_same in alike(config):
        if not is_same:
            yield (
                f"sweep.trials: {other} and {one} differ as 1.0 and 1 do; where the code takes "
                f"both alike they are one training, ranked with itself"
            )
    if "contest" in studies and len(config["contest"]["seeds"]) == 1:
        yield "contest: one seed tells no difference from luck; the answer will be undecided"
    if "matrix" in studies and not config["matrix"]["changes"]:
        yield "matrix: no change is named; the baseline is repeated, and trained from other_seed"
    for study in studies:
        yield from _behind_the_last_step(settings, study)
    if "noise" in studies:
        yield from _unscaled(len(config["noise"]["seeds"]), config["noise"]["perturbations"])


def _behind_the_last_step(settings: "Settings", study: str) -> Iterator[str]:
    """Say which stops of the second epoch leave nothing to train, of trainings that have no third.

    Twinrun's checkpoint lies in mid-epoch; where in an epoch a validation is, loaders may say.
    """
    asked = settings.config[study]
    names = asked.get("variants", [])
    if study == "matrix":
        names = [asked["baseline"], *(cell.variant for cell in settings.cells.values())]
    if study == "resume":
        names = [pair["stopped"] for name in names for pair in settings.stops_of(name)]
    those = [settings.variants[name] for name in names]
    ends = {each.stop for each in those if each.resume == "lightning"}
    stops = [stop for stop in ("last_batch", "epoch_end") if stop in ends]
    for name in asked["workloads"] if stops else ():
        if (asked.get("epochs") or settings.workloads[name].epochs) == 2:
            yield (
                f"{study}: {name} trains 2 epochs, and a stop is in the second: after "
                f"{' and '.join(stops)} Lightning's checkpoint leaves no step to train, so that "
                f"equal bits show nothing; give it another epoch"
            )


def _unscaled(seeds: int, perturbations: int) -> Iterator[str]:
    """Say which of the two scales has too few runs, of a metric the reference among them."""
    if seeds < 3:
        yield f"noise: nothing is compared with other seeds, which takes 3 of them, not {seeds}"
    if perturbations < 2:
        yield "noise: nothing is compared with rounding, which takes 2 perturbations, not 1"


def notes_on_inherited(config: Section) -> Iterator[str]:
    """Say which settings a variant has from the built-in one of its name.

    Args:
        config: the standard one with the user's united into it, without defaults.
    """
    theirs = config.get("variants")
    for name, settings in theirs.items() if isinstance(theirs, Mapping) else ():
        ours = _standard()["variants"].get(name)
        if ours is None or not isinstance(settings, Mapping) or settings == ours:
            continue
        kept = [f"{key}: {settings[key]}" for key in ours if settings.get(key) == ours[key]]
        if kept:
            yield (
                f"variants.{name}: changes the built-in variant of this name, which also says "
                f"{', '.join(kept)}; a variant of another name is yours alone"
            )


@cache
def _standard() -> Section:
    return msgspec.yaml.decode(STANDARD.read_bytes())
