"""Verdicts on a matrix: does its baseline repeat, and which changes leave every bit as it was?"""

from twinrun.comparison.study_records import IDLE_SEED, MatrixTable
from twinrun.formatting import count, plural, verb
from twinrun.verdicts.equality import REPEATS, SEED_MATTERS
from twinrun.verdicts.evidence import Evidence
from twinrun.verdicts.rows import Answer, Verdict

WITHSTANDS_CHANGES = "Does training stay equal, bit for bit, when one setting is changed?"
NOT_CHANGES = ("repeat", "seed")  # cells that change no setting


def baseline_repeats(matrix: Evidence[MatrixTable]) -> Verdict:
    """Say whether the baseline of a matrix repeats."""
    found = matrix.found
    measured = found["reason"] or _reason_of_repeat(found)
    if found["answer"] == "equal" and found["steps"] is not None:
        # A matrix trains its baseline twice, whatever the config says elsewhere.
        measured = f"2 runs, {plural(found['steps'], 'step')}"
    measured = "; ".join([measured, *_conditions_of_repeat(found)])
    return {
        "key": "repeats",
        "workload": found["workload"],
        "variant": found["baseline"],
        "question": REPEATS,
        "answer": found["answer"],
        "measured": measured,
        "evidence": matrix.path,
    }


def seed_matters(matrix: Evidence[MatrixTable]) -> list[Verdict]:
    """Say that another seed leads to the same training; nothing if it does not, or did not run."""
    found = matrix.found
    # Only bad news is said: that another seed changes something is what all expect.
    same = [cell for cell in found["cells"] if IDLE_SEED in cell["conditions"]]
    return [
        {
            "key": "seed_matters",
            "workload": found["workload"],
            "variant": found["baseline"],
            "question": SEED_MATTERS,
            "answer": "no",
            "measured": f"{cell['label']}: {cell['sentence'].removesuffix('.')}",
            "evidence": matrix.path,
        }
        for cell in same
    ]


def _reason_of_repeat(found: MatrixTable) -> str:
    """Say why the baseline was not trained again: it stands in its cell."""
    reasons = [cell["reason"] for cell in found["cells"] if cell["cell"] == "repeat"]
    return next(filter(None, reasons), "the baseline was not trained twice")


def _conditions_of_repeat(found: MatrixTable) -> list[str]:
    """Return what the baseline's own comparison rests on, which every other cell does too."""
    return [
        clause
        for cell in found["cells"]
        if cell["cell"] == "repeat"
        for clause in cell["conditions"]
    ]


def withstands_changes(matrix: Evidence[MatrixTable]) -> Verdict:
    """Say which changes leave the training as it was, bit for bit."""
    found = matrix.found
    answer, measured = _changes(found)
    return {
        "key": "withstands_changes",
        "workload": found["workload"],
        "variant": found["baseline"],
        "question": WITHSTANDS_CHANGES,
        "answer": answer,
        "measured": measured,
        "evidence": matrix.path,
    }


def _changes(found: MatrixTable) -> tuple[Answer, str]:
    """Count the changes that leave every bit as it was, and name the others."""
    changed = [cell for cell in found["cells"] if cell["cell"] not in NOT_CHANGES]
    labels = {
        answer: [cell["label"] for cell in changed if cell["answer"] == answer]
        for answer in ("equal", "differs", "not comparable", "not run")
    }
    compared = len(labels["equal"]) + len(labels["differs"])
    if not compared:
        reasons = dict.fromkeys(cell["reason"] for cell in changed if cell["reason"])
        reason = found["reason"] or "; ".join(reasons) or "no setting was changed"
        return "not comparable" if labels["not comparable"] else "not run", reason
    # A change that could not be compared, or failed, may break equality; one that cannot run is not
    # asked of this machine.
    is_open = labels["not comparable"] or any("tried" in cell for cell in changed)
    answer: Answer = "undecided" if is_open else "yes"
    # One change that breaks equality is enough, whatever could not be compared.
    if labels["differs"]:
        answer = "no"
    number = len(labels["equal"])
    leave = verb("leave", number, compared)
    clauses = [f"{count(number)} of {plural(compared, 'change')} {leave} it equal"]
    for name in ("differs", "not comparable", "not run"):
        clauses += [f"{name}: {', '.join(labels[name])}"] if labels[name] else []
    # Said once: every cell is compared with the same run of the baseline.
    of_baseline = _conditions_of_repeat(found)
    clauses += of_baseline
    clauses += [
        f"{cell['label']}: {clause}"
        for cell in changed
        for clause in cell["conditions"]
        if clause not in of_baseline
    ]
    return answer, "; ".join(clauses)
