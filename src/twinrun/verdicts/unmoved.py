"""What is said of choices that no seed moves, in all or in what they begin with."""

from collections.abc import Container, Mapping, Sequence

from twinrun.comparison.study_records import Ranking
from twinrun.formatting import count
from twinrun.luck.stillness import Part, Stillness, StillPart, Unmoved, unmoved
from twinrun.verdicts.means import joined, some_of

_CALLED: dict[Part, str] = {
    "weights": "the initial weights",
    "batches": "the first batches",
    "random": "torch's RNG state",
    "torch": "torch's RNG state of the CPU",
    "cuda": "torch's RNG state of the GPU",
    "numpy": "NumPy's RNG state",
    "python": "Python's RNG state",
    "own": "the generator",
}
_SEEDED = {"weights", "batches", "random"}
_ONE = {*_CALLED} - {"weights", "batches"}
_GLOBAL = _ONE - {"own"}


def stand_still(still: Mapping[str, Stillness], seeds: int) -> str:
    """Say that no seed moves choices, by their labels, and what that may be.

    >>> stand_still({"wide": Stillness(of="result")}, 4)
    'no seed moves wide (its result is the same from each of 4 seeds, so it may seed itself), so \
its luck is not measured'
    >>> parts = StillPart(part="weights"), StillPart(part="batches")
    >>> seeded = Stillness(of="seeded", parts=(*parts, StillPart(part="random", since=2)))
    >>> stand_still({"wide": seeded}, 4)
    "no seed moves the initial weights, the first batches and from step 2 on torch's RNG state of \
wide (they are the same from each of 4 seeds, so it may seed itself in part), so the luck of these \
is not measured"
    >>> stand_still({"wide": Stillness(of="undrawn", parts=parts)}, 4)
    'no seed moves the initial weights and the first batches of wide (they are the same from each \
of 4 seeds, and no traced step draws from a global generator, so its results may owe nothing \
to seeds), so the luck of these is not measured'
    """
    labels: dict[Stillness, list[str]] = {}
    for label, of in still.items():
        labels.setdefault(of, []).append(label)
    return "; ".join(
        _ended_alike(named, seeds) if of.of == "result" else _began_alike(named, seeds, of)
        for of, named in sorted(labels.items(), key=lambda found: _KINDS.index(found[0].of))
    )


_KINDS = ("result", "seeded", "undrawn", "traced")


def _ended_alike(labels: Sequence[str], seeds: int) -> str:
    its, itself, whose = "its result", "it may seed itself", "its"
    if len(labels) > 1:
        its, itself, whose = "the result of each", "they may seed themselves", "their"
    return (
        f"no seed moves {some_of(labels)} ({its} is the same from each of {count(seeds)} seeds, so "
        f"{itself}), so {whose} luck is not measured"
    )


def _began_alike(labels: Sequence[str], seeds: int, still: Stillness) -> str:
    is_one = len(labels) == 1
    so = f"{'it' if is_one else 'each'} may seed itself in part"
    unknown = ""
    if still.of == "traced":
        unknown = ", and whether torch's RNG state is, too, was not traced"
    elif still.of == "undrawn":
        unknown = f", and no traced step draws from {_another(still.parts)} global generator"
        so = f"{'its' if is_one else 'their'} results may owe nothing to seeds"
    of_each = "" if is_one else " for each"
    return (
        f"no seed moves {_named(still.parts)} of {some_of(labels)} (they are "
        f"the same{of_each} from each of {count(seeds)} seeds{unknown}, so {so}), so "
        f"the luck of these is not measured"
    )


def _another(parts: Sequence[StillPart]) -> str:
    return "another" if any(still.part in _GLOBAL for still in parts) else "a"


def _named(parts: Sequence[StillPart]) -> str:
    return joined([_called(still) for still in parts])


def _called(still: StillPart) -> str:
    since = "" if still.since == 1 else f"from step {count(still.since)} on "
    name = f" {still.name}" if still.name else ""
    return f"{since}{_CALLED[still.part]}{name}"


def not_counted(found: Unmoved, where: str = "") -> str:
    """Say what no seed of a study noise moves of what a training rests on; "" if it is nothing.

    >>> parts = StillPart(part="weights"), StillPart(part="batches")
    >>> not_counted(Unmoved(parts=parts))
    '; no seed moves the initial weights and the first batches, whose luck is not counted'
    >>> not_counted(Unmoved(parts=parts, is_undrawn=True))
    '; no seed moves the initial weights and the first batches, whose luck is not counted; no \
traced step draws from a global generator, so what seeds differ in may be no luck of seeds'
    """
    if not found.parts:
        return ""
    is_seeded = {still.part for still in found.parts} >= _SEEDED
    itself = " (the module may seed itself)" if is_seeded else ""
    rest = ""
    if found.is_undrawn:
        rest = (
            f"; no traced step draws from {_another(found.parts)} global generator, so what seeds "
            f"differ in may be no luck of seeds"
        )
    return f"; no seed moves {_named(found.parts)}{where}{itself}, whose luck is not counted{rest}"


def begun_alike(ranking: Ranking, said: Container[str]) -> str:
    """Name what no seed moves of what ranked choices rest on: its luck is in no scatter.

    Ordinary as it is: weights that were trained before, samples in their own order.

    Args:
        ranking: of several seeds, or of one, which shows nothing.
        said: labels of choices of which it is said elsewhere.
    """
    choices = [c for c in ranking["choices"] if c["rank"] is not None and c["label"] not in said]
    found: dict[StillPart, list[str]] = {}
    undrawn: list[str] = []
    for choice in choices:
        of_choice = unmoved(ranking, choice)
        undrawn += [choice["label"]] if of_choice.is_undrawn else []
        for part in of_choice.parts:
            found.setdefault(part, []).append(choice["label"])
    clauses = [
        f"; no seed moves {_called(still)} of "
        f"{'any' if len(of) == len(choices) > 2 else some_of(of)}, so "
        f"{'its' if still.part in _ONE else 'their'} luck is not counted"
        for still, of in found.items()
    ]
    if undrawn:
        clauses.append(
            f"; no traced step of {some_of(undrawn)} draws from a global generator that a seed "
            f"moves, so what seeds differ in there may be no luck of seeds"
        )
    return "".join(clauses)
