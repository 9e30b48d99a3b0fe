"""What the answer of a comparison rests on, in clauses to be said beside it.

A run that was resumed, a loss or weights that are no numbers, outputs that differ although the
weights are equal, seeds that change nothing, a compiler's cache that the runs share: each makes an
answer say less than it seems to. Where each run compiled for itself, that is said too: it is why
the answer holds for compiling, and not for one binary alone.
"""

from collections.abc import Iterator, Mapping, Sequence

from twinrun.comparison.pair_records import Comparison, NonFiniteLoss
from twinrun.formatting import count, plural
from twinrun.process.found_files import read_of_all, read_of_earlier
from twinrun.run_records import RunManifest
from twinrun.wording import some

NOT_AS_SAID = "not as its variant says: "
"""How a clause of a departure begins."""


def conditions(found: Comparison) -> list[str]:
    """Return the clauses, none of an answer that needs no more to be said."""
    return [*resumptions(found), *_lengths(found), *beside_resumptions(found)]


def resumptions(found: Comparison) -> list[str]:
    """Return a clause for each run that was resumed."""
    return [
        f"run {run} was resumed after {listed('step', steps)}"
        for run, steps in enumerate(found["resumed_at"], start=1)
        if steps
    ]


def is_behind_resumption(found: Comparison) -> bool:
    """Say whether what differs was first seen at a step that a resumed training did."""
    after = [step for steps in found["resumed_at"] for step in steps]
    first = found["first_difference"]
    # What no step shows differs behind the last one, or where nobody looked.
    return bool(after) and (first is None or first["step"] > min(after))


def beside_resumptions(found: Comparison) -> list[str]:
    """Return all other clauses, for sentences that speak of resuming anyway."""
    return [
        *([found["traced"]] if "traced" in found else []),
        *_made_anew(found),
        *_found_files(found),
        *_untrained(found),
        *_losses(found["non_finite_loss"], is_whole="traced" not in found),
        *_weights(found),
        *_outputs(found),
        *_unseen(found["not_fingerprinted"]),
        *_not_held(found["not_held"]),
        *[f"{NOT_AS_SAID}{departure['sentence']}" for departure in found["departures"]],
        *_compilers(found),
    ]


def made_anew(names: Sequence[str]) -> str:
    """Say what a resumed training rests on beside its checkpoint.

    >>> made_anew(["Rows.images"]).partition(": ")[0]
    'Rows.images, which no checkpoint held, was made anew as data were read'
    """
    was = "was" if len(names) == 1 else "were"
    return (
        f"{', '.join(names)}, which no checkpoint held, {was} made anew as data were read: whether "
        f"these depend on that {'it is' if len(names) == 1 else 'they are'} there was not seen"
    )


def doubts_of(run: RunManifest) -> list[str]:
    """Say what may have moved what a run came to, beside what its comparison looks at."""
    anew = [made_anew(run["made_anew"])] if "made_anew" in run else []
    return [*run["doubts"], *anew]


def _made_anew(found: Comparison) -> list[str]:
    return [made_anew(found["made_anew"])] if "made_anew" in found else []


def _found_files(found: Comparison) -> list[str]:
    if "found_files" not in found:
        return []
    files = found["found_files"]
    outdated = files["outdated"] if "outdated" in files else []  # noqa: SIM401
    return read_of_earlier(files["changed"]) + read_of_all(files["kept"]) + outdated


def outputs_that_differ(found: Comparison) -> dict[str, str]:
    """Return what a pair gives beside its weights and does not agree in: its name, and how."""
    outputs = {
        "logged values": found["logged"],
        "test metrics": found["metrics"],
        "predictions": found["predictions"],
    }
    return {
        name: agreement["measured"]
        for name, agreement in outputs.items()
        if agreement is not None and agreement["answer"] == "differs"
    }


def conditions_of_seeds(comparisons: Sequence[Comparison]) -> list[str]:
    """Return the clauses of several seeds, each once; what holds of some names its seeds."""
    seeds: dict[str, list[int]] = {}
    for found in comparisons:
        for clause in conditions(found):
            # By its text: a clause with other numbers is another one.
            seeds.setdefault(clause, []).append(found["seed"])
    every = len(comparisons)
    return [
        clause if len(named) == every else f"{listed('seed', named)}: {clause}"
        for clause, named in seeds.items()
    ]


def same_trainings(comparisons: Sequence[Comparison]) -> list[list[int]]:
    """Group the seeds that lead to the same parameters, each seed once.

    >>> same_trainings([{"seed": 1, "same_as_seeds": [3]}, {"seed": 2, "same_as_seeds": []},
    ...                 {"seed": 3, "same_as_seeds": [1]}])
    [[1, 3], [2]]
    """
    groups: list[list[int]] = []
    for found in comparisons:
        # ASSUME being the same is transitive, as it is where the runs of each seed are equal: a
        # seed that meets two groups joins the first.
        known = next((g for g in groups if set(g) & set(found["same_as_seeds"])), None)
        if known is None:
            groups.append([found["seed"]])
        else:
            known.append(found["seed"])
    return groups


def listed(noun: str, numbers: Sequence[int]) -> str:
    """List some numbers of a kind.

    >>> listed("seed", [2]), listed("step", [1, 2, 3])
    ('seed 2', 'steps 1, 2 and 3')
    """
    *others, last = map(count, numbers)
    if not others:
        return f"{noun} {last}"
    return f"{noun}s {', '.join(others)} and {last}"


def _untrained(found: Comparison) -> Iterator[str]:
    """Say that nothing was learned, as far as that was seen."""
    # Not where it is the reason of an answer, or there is none.
    if found["is_untrained"] and found["answer"] != "not run" and found["parameters"]["elements"]:
        is_seen = "traced" not in found
        yield "no step changes a parameter" if is_seen else "the parameters end as they began"


def _lengths(found: Comparison) -> Iterator[str]:
    """Say at which step each run ends, where it is not the same one."""
    if "steps_of_runs" in found:
        yield f"the runs end at {listed('step', found['steps_of_runs'])}"


def _losses(runs: Sequence[NonFiniteLoss | None], *, is_whole: bool) -> Iterator[str]:
    clauses = [when_not_finite(found, is_whole=is_whole) if found else None for found in runs]
    if clauses and clauses[0] and len(set(clauses)) == 1:
        yield f"the loss is not finite {clauses[0]}"
        return
    for run, clause in enumerate(clauses, start=1):
        if clause:
            yield f"the loss of run {run} is not finite {clause}"


def when_not_finite(found: NonFiniteLoss, *, is_whole: bool = True) -> str:
    """Say at which steps a loss is not finite, of those that were traced: all, or some.

    >>> when_not_finite({"step": 3, "since": 3, "number": 1, "is_lasting": False})
    'at step 3'
    >>> when_not_finite({"step": 3, "since": 3, "number": 2, "is_lasting": True})
    'from step 3 on'
    >>> thinned = {"step": 20, "since": 11, "number": 2, "is_lasting": True}
    >>> when_not_finite(thinned, is_whole=False)
    'at every traced step from step 20 on, if not since step 11'
    """
    first = f"step {count(found['step'])}"
    if found["number"] == 1:
        words = f"at {first}"
    elif found["is_lasting"]:
        words = f"from {first} on" if is_whole else f"at every traced step from {first} on"
    else:
        steps = "steps" if is_whole else "traced steps"
        words = f"at {count(found['number'])} {steps}, the first of them {first}"
    if found["since"] == found["step"]:
        return words
    return f"{words}, if not since step {count(found['since'])}"


def _weights(found: Comparison) -> Iterator[str]:
    numbers, whole = found["non_finite_parameters"], found["parameters"]["elements"]
    runs = [(f" of run {run}", number) for run, number in enumerate(numbers, start=1)]
    # ASSUME as many elements are the same ones: a comparison keeps only their number.
    if len(set(numbers)) == 1:
        runs = [("", numbers[0])]
    for of_run, number in runs:
        if number:
            verb = "is" if number == 1 else "are"
            yield f"{count(number)} of {plural(whole, 'parameter')}{of_run} {verb} not finite"


def _unseen(classes: Sequence[str]) -> Iterator[str]:
    """Name what the batches hold that no fingerprint covers: another order of it is not seen."""
    if classes:
        *others, last = classes
        named = f"{', '.join(others)} and {last}" if others else last
        yield f"but what objects of {named} hold in the batches could not be compared"


def _not_held(ends: Mapping[str, bool | None]) -> Iterator[str]:
    """Name what a module may train by itself, and say how it was compared: at the end alone."""
    what = (
        "what requires gradients and is neither parameters of the module nor held by an optimizer"
    )
    what = f"{what} of Lightning's"
    for how, but, words in (
        (False, "but ", "differs at the end"),
        (None, "but ", "could not be compared"),
        (True, "", "was compared at the end alone, and is equal there"),
    ):
        if names := [name for name, is_alike in ends.items() if is_alike is how]:
            yield f"{but}{what} {words} ({plural(len(names), 'tensor')}: {some(names)})"
            what = "more of the kind"


def _outputs(found: Comparison) -> Iterator[str]:
    """Name outputs that differ where the answer speaks of equal weights and steps."""
    if found["answer"] == "equal":
        for name, measured in outputs_that_differ(found).items():
            yield f"but {name} differ: {measured}"


def _compilers(found: Comparison) -> Iterator[str]:
    """Say whether repeats that compile did so each for itself."""
    # Of other variants nobody expects the same code.
    if found["against"] is not None:
        return
    if found["compiler_cache"] == "own":
        yield "each run compiled for itself, into an empty cache"
    elif found["compiler_cache"] == "shared":
        yield (
            "the runs share a compiler's cache: they ran the same compiled code, and whether "
            "compiling repeats is not shown"
        )
