"""Choices that no seed moves: how lucky they are was not measured, and scatter shows nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from twinrun.comparison.begun import Begun, Generators
from twinrun.comparison.study_records import Choice, Ranking
from twinrun.luck.welch import scatter

Part = Literal["weights", "batches", "random", "torch", "cuda", "numpy", "python", "own"]


@dataclass(frozen=True, kw_only=True)
class StillPart:
    """What no seed moves of a training."""

    part: Part
    """The initial weights, the first mini-batches, or RNG states: all of torch's are `random`, and
    a generator of the user's own is `own`."""
    since: int = 1
    """The step from which on no seed moves it, as far as states were kept."""
    name: str = ""
    """Of a generator of the user's own: where it is held."""


@dataclass(frozen=True, kw_only=True)
class Unmoved:
    """What no seed moves of a training, of all that is looked at."""

    parts: tuple[StillPart, ...] = ()
    """Which parts; unknown is not named."""
    is_undrawn: bool = False
    """Whether initial weights and first batches are among them, and torch's RNG state is not, and
    no step draws from another global generator than those that are: then nothing shows what a seed
    would move."""


@dataclass(frozen=True, kw_only=True)
class Stillness:
    """What no seed moves of a choice, whose scatter shows no luck of seeds then."""

    of: Literal["result", "seeded", "undrawn", "traced"]
    """All that it ends in; weights, mini-batches and torch's RNG state; the first two, with steps
    that are `is_undrawn`; the first two, where of RNG states nobody knows."""
    parts: tuple[StillPart, ...] = ()
    """Of all but the first kind: what is named."""


def stillness(ranking: Ranking, choice: Choice) -> Stillness | None:
    """Say whether all seeds give a choice one result, or one beginning, and nothing moves it.

    It may seed itself. Weights that differ show that it does not do so in all: then a metric that
    takes few values, or has come to its end, stands still alone. They may differ by what it draws
    under way: a module that seeds torch, and draws noise from NumPy's generator. Its scatter is
    that noise's, and tells nothing of other weights and orders of samples. Weights that were
    trained before and samples in their own order are the same for all seeds, too: then dropout
    under other states of torch's generators is luck as it should be. It is none from the step on in
    which the module seeds torch, and where no step draws from a global generator there is none:
    what scatters then is noise of a generator that no seed moves, or rounding.
    """
    if not scatter(choice["values"]).deviation:
        trials = [t for t in ranking["trials"] if t["choice"] == choice["name"]]
        weights = {t["weights_sha256"] for t in trials if t["seed"] in ranking["seeds"]}
        if len(weights) == 1 or None in weights:
            return Stillness(of="result")
    begun = _begun(ranking, choice)
    found = unmoved_of(begun)
    named = {still.part for still in found.parts}
    if not {"weights", "batches"} <= named:
        return None
    if "random" in named:
        return Stillness(of="seeded", parts=found.parts)
    if found.is_undrawn:
        return Stillness(of="undrawn", parts=found.parts)
    is_known = all(of[state] for of in begun for state in ("random", "random_after"))
    return None if is_known else Stillness(of="traced", parts=found.parts)


def unmoved(ranking: Ranking, choice: Choice) -> Unmoved:
    """Find what several seeds do not move of what a choice rests on."""
    return unmoved_of(_begun(ranking, choice))


def unmoved_of(begun: Sequence[Begun]) -> Unmoved:
    """Find what is the same of several trainings, one of each seed."""
    found = [
        StillPart(part=part)
        for part, key in (("weights", "weights"), ("batches", "batches"))
        if _are_same(begun, key)
    ]
    is_begun_alike = len(found) == 2
    drawn = [of for of in get_args(Generators) if any(of in (b["drawn"] or ()) for b in begun)]
    since_of = {of: _still_since(begun, of) for of in get_args(Generators)}
    of_torch = _of_torch(begun)
    stills = [since for of in of_torch if (since := since_of[of]) is not None]
    # A module may seed torch before its first step, or in each: then the states behind it are same.
    if is_seeded := _are_same(begun, "random") or _are_same(begun, "random_after"):
        found.append(StillPart(part="random"))
    elif is_seeded := len(stills) == len(of_torch) > 0:
        found.append(StillPart(part="random", since=max(stills)))
    # Most steps draw nothing from the others, and a module may well seed what it does not use.
    others = [of for of in drawn if not (is_seeded and of in ("torch", "cuda"))]
    found += [
        StillPart(part=of, since=since) for of in others if (since := since_of[of]) is not None
    ]
    found += [StillPart(part="own", name=name) for name in _own(begun)]
    are_known = len(begun) > 1 and all(each["drawn"] is not None for each in begun)
    is_moved = any(since_of[of] is None for of in others)
    return Unmoved(
        parts=tuple(found),
        is_undrawn=is_begun_alike and not is_seeded and are_known and not is_moved,
    )


def _own(begun: Sequence[Begun]) -> list[str]:
    """Name the generators of a user's own that begin alike from each of several seeds."""
    first, *others = [each["own"] for each in begun] or [{}]
    return [n for n, of in first.items() if others and all(each.get(n) == of for each in others)]


def _of_torch(begun: Sequence[Begun]) -> list[Generators]:
    every: tuple[Generators, ...] = ("torch", "cuda")
    return [of for of in every if any(of in each["states"] for each in begun)]


def _still_since(begun: Sequence[Begun], of: Generators) -> int | None:
    """Return the step from which on the states behind steps are the same from each seed."""
    states = [each["states"].get(of, {}) for each in begun]
    if len(states) < 2:  # a seed alone shows nothing
        return None
    since = None
    for step in sorted(map(int, set(states[0]).intersection(*states[1:])), reverse=True):
        if len({each[str(step)] for each in states}) > 1:
            break
        since = step
    return since


_Key = Literal["weights", "batches", "random", "random_after"]


def _are_same(begun: Sequence[Begun], key: _Key) -> bool:
    return len(begun) > 1 and bool(begun[0][key]) and len({each[key] for each in begun}) == 1


def _begun(ranking: Ranking, choice: Choice) -> list[Begun]:
    seeds = {*ranking["seeds"]}
    return [
        trial["begun"]
        for trial in ranking["trials"]
        if trial["choice"] == choice["name"] and trial["seed"] in seeds
    ]
