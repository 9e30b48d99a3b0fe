"""Advice on causes: what breaks equality, and what to look at in one's own code."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from twinrun.comparison.advice import ADVICE, SETTINGS_ADVICE, UNWRITTEN_ADVICE, remedy_of
from twinrun.comparison.conditions import NOT_AS_SAID, is_behind_resumption, resumptions
from twinrun.comparison.difference_words import clause_of
from twinrun.comparison.location_words import BY_PYTHON, OUTSIDE, RESEED, UNTRACED
from twinrun.comparison.pair_records import Cause, FirstDifference, Location, Operation
from twinrun.comparison.study_records import MatrixCell
from twinrun.formatting import count, plural, verb
from twinrun.report.advice_repeats import is_deterministic, no_result, pairs_of, variants_of
from twinrun.report.by_itself import by_itself
from twinrun.report.results import ReportedComparison, Results
from twinrun.report.sentence import Sentence, listed, sentence
from twinrun.report.why_mended import location_of, op_with_line
from twinrun.report.worths import worths
from twinrun.verdicts.matrix import NOT_CHANGES
from twinrun.verdicts.rows import VerdictRow

# What in one's own code decides what a changed setting changes, a clause for each class of cause.
OF_A_CHANGE: Mapping[Cause, str] = {
    "initial weights": "the setting decides the initial weights: look at what draws them in "
    "`__init__`, `setup` or `configure_model`, and for memory that nothing has written there",
    "between steps": "weights or buffers change between steps under this setting: look for a hook "
    "or a callback that changes them",
    "RNG state": "other random numbers are drawn under this setting: look for a callback, a loader "
    "or a layer that draws from the global generators, and give it one of its own",
    "data order": "the batches come in another order: look at the sampler, at the source of its "
    "random numbers, and for a set that is gone through",
    "data content": "the samples are others: if your dataset draws from a global generator in "
    "`__getitem__`, seed one for each index",
    "data order or content": "the samples are others, or come in another order: look at the "
    "sampler and at what your dataset draws in `__getitem__`",
    "data not compared": "what the workers were given in parts cannot be put together, and so not "
    "be compared with the whole mini-batch (a collate function that pads or concatenates, a number "
    "that may count samples): where the loss depends on what a sample is padded to, it is another",
    "forward": "the forward pass computes otherwise",
    "backward": "the backward pass computes otherwise",
    "collective": "the workers' gradients are summed otherwise",
    "optimizer": "the update is computed otherwise: another implementation of the optimizer, or "
    "other settings of it",
    "end of the training": "the training ends elsewhere: look for what ends it or an epoch (early "
    "stopping, a time limit, a loader of another length)",
    "not held": "where it begins is not known, as no step shows what neither the module nor an "
    "optimizer of Lightning's holds: make it a submodule",
    "not traced": "where it begins is not known: trace every step (`trace: {every: 1}`)",
}
# Settings by which a mini-batch is computed in parts.
IN_PARTS = ("devices", "accumulate", "sharding", "batch_norm")
OF_PARTS = (
    "a mini-batch is computed in parts, for which batch normalisation, dropout and a loss that is "
    "no mean over the samples give something else, and so does what a step counts or carries over"
)
# What was seen comes ahead of what may be.
NAMED = "the run was not as its variant says in what the cell names, which may be all of it; "
BY_DATASET = (
    "without data workers a dataset that draws in `__getitem__`, or a collate function, draws from "
    "the training's own generators, and with them from those of the workers: seed a generator for "
    "each index"
)
# Where the step was done again, and no operation was found.
REPLAYED = "no operation of that step was seen to do it, done again"
BESIDE = (
    f": look outside of the step ({OUTSIDE}), and at what is not torch's in it (a clock, a set, "
    f"NumPy, another thread)"
)
INSIDE = (
    f"and no operation of it was seen to do it: look at what changes it there unseen ({UNTRACED}), "
    "and for memory that none has written"
)
# Causes that lie in what a training is given, and so in its own code.
OWN_CODE: tuple[Cause, ...] = (
    *("data content", "data order", "data order or content", "RNG state", "initial weights"),
    "between steps",
)


def breaking(results: Results) -> list[Sentence]:
    """Say what breaks equality and where to look: in pairs that nothing mends, matrices, others."""
    ranked: list[tuple[int, Sentence]] = []
    for variants in variants_of(results).values():
        is_mended = any(found.repeats for found in variants)
        broken = [found for found in variants if not found.is_equal]
        strict = [v for v in broken if is_deterministic(results, v.name)]
        for found in (strict or broken)[:1]:
            ranked += [(2 if is_mended else 0, said) for said in _origin(results, found.row)]
    ranked += [(1, said) for row in results.verdicts for said in _changes(results, row)]
    ranked += [(2, said) for row in results.verdicts for said in _resumed(results, row)]
    return [found for _, found in sorted(ranked, key=lambda entry: entry[0])]


def _origin(results: Results, row: VerdictRow) -> Iterator[Sentence]:
    """Say where the runs of a variant diverge, and what to look at: what most seeds show."""
    pairs = [pair for pair in pairs_of(results, row) if pair["answer"] == "differs"]
    causes: dict[str, list[_Divergence]] = {}
    for found in (_divergence(results, pair) for pair in pairs):
        if found is not None:
            causes.setdefault(found.look, []).append(found)
    if not causes:
        return
    # An operation says more than a quantity.
    most = min(causes.values(), key=lambda alike: (not alike[0].is_located, -len(alike)))
    says = min(most, key=lambda found: found.step).says
    if len(most) < len(pairs):
        says += f"; so it is for {count(len(most))} of the {plural(len(pairs), 'seed')} that differ"
    yield sentence(row, f"the runs of {row['variant']} diverge {says}")


@dataclass(frozen=True, kw_only=True)
class _Divergence:
    """Where the runs of a seed diverge."""

    look: str
    """What to look at: seeds that have it alike diverge alike."""
    is_located: bool
    """Whether an operation was found."""
    step: int
    """In which they diverge."""
    says: str
    """All of it."""


def _divergence(results: Results, pair: ReportedComparison) -> _Divergence | None:
    found, first = location_of(results, pair), pair["first_difference"]
    if first is None:
        return None
    if found is not None and found["op"] is not None:
        is_strict = is_deterministic(results, pair["variant"])
        says = _operation(found["op"], is_strict=is_strict) + _suspected(found, is_strict=is_strict)
        return _Divergence(look=says, is_located=True, step=first["step"], says=says)
    look = look_at(first)
    if found is not None and found["repeats"]:
        look = _done_again(found)
        look += _suspected(found, is_strict=is_deterministic(results, pair["variant"]))
    says = f"{clause_of(first)}: {look}"
    if is_behind_resumption(pair):
        says += f"; it may also be what a checkpoint does not hold: {listed(resumptions(pair))}"
    return _Divergence(look=look, is_located=False, step=first["step"], says=says)


def _done_again(location: Location) -> str:
    """Say what to look at where no operation was seen to do it."""
    if location["differed"]:
        says = (
            f"it differed again in {count(location['differed'])} of {count(location['repeats'])} "
            f"repeats of that step, {INSIDE}"
        )
    else:
        says = f"{REPLAYED} {plural(location['repeats'], 'time')}{BESIDE}"
    op = location["likely"]
    if op is None:
        return says
    where = f"{op_with_line(op)} ({op['phase']})"
    return f"{says}; or at {where}, which leads to what differs, and differed in it"


def _suspected(location: Location, *, is_strict: bool) -> str:
    """Say of which operation Python may have what differs, and what to do; nothing if of none."""
    suspect = location["suspect"]
    if suspect is None:
        return ""
    return (
        f"; what decides it may be computed from what an operation before it gave, "
        f"{_operation(suspect['op'], is_strict=is_strict)}"
    )


def look_at(first: FirstDifference) -> str:
    """Say what to look at where repeats diverge."""
    return SETTINGS_ADVICE if first["quantity"] == "optimizer settings" else ADVICE[first["cause"]]


def _operation(op: Operation, *, is_strict: bool) -> str:
    says = f"at {op_with_line(op)} ({op['phase']})"
    if op["differs_in"] == "unwritten":
        return f"{says}, which reads memory that no operation has written: {UNWRITTEN_ADVICE}"
    if op["draws"]:
        if op["differs_in"] == "tensors":
            return f"{says}: the same draws are done in an order that the seed does not decide"
        return f"{says}, which draws other random numbers: {RESEED}"
    if op["differs_in"] == "operations":
        return (
            f"{says}: a branch of the code there depends on something that the seed does not decide"
        )
    if op["differs_in"] == "tensors":
        return f"{says}: which tensors it is given, or in which order, the seed does not decide"
    if "numbers" in op:
        return f"{says}, which Python gives another value, from outside of torch ({BY_PYTHON})"
    if op["differs_in"] == "inputs":
        return f"{says}, which is given other values that no operation before it was seen to make"
    return f"{says}: {remedy_of(op['op'], deterministic=is_strict)}"


def _changes(results: Results, row: VerdictRow) -> Iterator[Sentence]:
    """Say which changes of one setting a matrix shows to break equality."""
    table = results.matrices.get(row["workload"])
    if row["key"] != "withstands_changes" or table is None:
        return
    cells = [cell for cell in table["cells"] if cell["cell"] not in NOT_CHANGES]
    differing = [cell for cell in cells if cell["answer"] == "differs"]
    compared = len(differing) + sum(cell["answer"] == "equal" for cell in cells)
    if row["answer"] == "yes":
        says = f"every parameter and buffer keeps its bits under {_all(compared)} of one setting"
        yield sentence(row, _with_doubt(results, row, f"{says} that ran"))
    elif row["answer"] == "no":
        labels = listed(f"`{cell['label']}`" for cell in differing)
        says = (
            f"{count(len(differing))} of {plural(compared, 'change')} of one setting "
            f"{verb('give', len(differing), compared)} other bits ({labels}): keep "
            f"{'it as it is' if len(differing) == 1 else 'them as they are'} to have the same bits "
            f"again"
        )
        worth = worths(results, row["workload"], table["baseline"])
        small = [c for c in differing if worth.get(c["label"]) == "no more than rounding"]
        if small:
            how_many = "1 of them does" if len(small) == 1 else f"{count(len(small))} of them do"
            says += f"; {how_many} no more than rounding does"
        asked = [cell for cell in differing if by_itself(cell) is None]
        own = [cell for cause in OWN_CODE for cell in asked if cell["cause"] == cause]
        if own:
            says += f". Look at your own code under `{own[0]['label']}`: {of_cell(own[0])}"
        yield sentence(row, says)


def _all(changes: int) -> str:
    return f"all {count(changes)} changes" if changes > 1 else "the one change"


def _resumed(results: Results, row: VerdictRow) -> Iterator[Sentence]:
    """Say that Lightning's checkpoint loses bits, and whether Twinrun's keeps them."""
    if (row["key"], row["answer"]) != ("resumes_lightning", "differs"):
        return
    says = (
        f"training under {row['variant']} that resumes from Lightning's checkpoint ends otherwise"
    )
    same = {**row, "key": "resumes_twinrun", "answer": "equal"}
    names = ("study", "workload", "variant", "key", "answer")
    if any(all(other[name] == same[name] for name in names) for other in results.verdicts):
        says += "; from Twinrun's (`resume: twinrun`) it ends in the same bits"
    yield sentence(row, _with_doubt(results, row, says))


def _with_doubt(results: Results, row: VerdictRow, says: str) -> str:
    """Say beside what is said of bits that they are those of no result."""
    return "; but ".join([says, *no_result(results, row)])


def of_cell(cell: MatrixCell) -> str | None:
    """Say what to look at where a change of one setting differs; None where it does not."""
    if cell["answer"] != "differs" or cell["cell"] == "seed":
        return None
    cause = cell["cause"]
    if cell["cell"] == "repeat":
        return ADVICE[cell["cause"]] if cell["cause"] else None
    if cause is None:
        return "nothing differs in a step: look for what changes weights after the last one"
    if (says := by_itself(cell)) is not None:
        return says
    said = OF_A_CHANGE[cause]
    if cause == "data not compared":
        return f"{said}; and {OF_PARTS}"
    if cause == "RNG state" and "data_workers:" in cell["label"]:
        return f"{said}; {BY_DATASET}"
    if cause in ("forward", "backward", "collective"):
        if any(f"{setting}:" in cell["label"] for setting in IN_PARTS):
            is_said = any(each.startswith(NOT_AS_SAID) for each in cell["conditions"])
            return f"{NAMED if is_said else ''}{said}: {OF_PARTS}"
        if cell["size"] is not None:
            said += _in_own_code(cell["size"])
    return said


def _in_own_code(size: Literal["rounding", "algorithmic", "undecided"]) -> str:
    return {
        "rounding": ", as far as rounding goes: no code of yours has to be at fault",
        "algorithmic": ", by more than rounding: look for code of yours that asks for the setting",
        "undecided": "; whether rounding explains it is undecided",
    }[size]
