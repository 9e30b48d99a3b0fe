"""Advice on luck, and what could not be measured."""

from collections.abc import Iterator, Sequence

from twinrun.formatting import count, measure, plural
from twinrun.luck.contest import candidates, contest
from twinrun.luck.floor import Floor, floors
from twinrun.luck.standing import standing
from twinrun.report.measured_sizes import size_of, timing_of, where
from twinrun.report.results import Results
from twinrun.report.sentence import Sentence, each_once, listed, sentence
from twinrun.verdicts.contest import OPPOSED, alike_from, pairing
from twinrun.verdicts.means import spread
from twinrun.verdicts.noise import luck, outliers_of
from twinrun.verdicts.rows import VerdictRow
from twinrun.verdicts.sweep import (
    metric_in,
    not_finite_beside,
    of_samples,
    without_number,
)
from twinrun.verdicts.unmoved import not_counted

FEWEST_SEEDS = 3  # of which a noise floor is told
SIDE = 5  # seeds a side


def lucks(results: Results) -> list[Sentence]:
    """Say which differences are luck; then which seeds are, and which candidates are better."""
    of_keys = {
        "seed_or_rounding": _floor,
        "lucky_seed": _outlier,
        "contest": _contest,
        "best": _best,
    }
    return [
        said
        for key, of in of_keys.items()
        for row in results.verdicts
        if row["key"] == key
        for said in of(results, row)
    ]


def _floor(results: Results, row: VerdictRow) -> Iterator[Sentence]:
    """Say the noise floor of one metric: of a share of samples if there is one."""
    found = [of for of in _floors(results, row) if of.seeds.number >= FEWEST_SEEDS and of.luck]
    if not found:
        return
    first = min(found, key=lambda of: of.samples is None)
    says = luck(first)
    # Beyond what any value is, nobody knows whether it can be.
    if (told := first.detectable[SIDE]) is not None and told <= first.largest:
        says += f"; {plural(SIDE, 'seed')} a side tell {measure(told, 2)}"
    if row["answer"] == "no":
        says += "; another seed moves it less than twice as far as rounding does"
    yield sentence(row, says + not_counted(first.still))


def _floors(results: Results, row: VerdictRow) -> list[Floor]:
    table = results.noises.get(row["evidence"])
    return [] if table is None or table["reason"] is not None else floors(table)


def _outlier(results: Results, row: VerdictRow) -> Iterator[Sentence]:
    outliers = [said for of in _floors(results, row) for said in outliers_of(of)]
    if row["answer"] == "yes" and outliers:
        yield sentence(
            row, f"an outlier among the seeds is {outliers[0]}: do not judge by it alone"
        )


def _contest(results: Results, row: VerdictRow) -> Iterator[Sentence]:
    ranking = results.contests.get(row["evidence"])
    if ranking is None or row["answer"] not in ("better", "worse", "not worse"):
        return
    first, second = (choice["label"] for choice in candidates(ranking))
    found, aside = contest(ranking), without_number(ranking) + not_finite_beside(ranking)
    if found.is_same and found.first is not None:
        same = alike_from(found.first.number)
        yield sentence(row, f"{first} is not worse than {second}: {same}{aside}")
        return
    apart = found.difference
    if apart is None:
        return
    low, high = (measure(end) for end in apart.interval)
    by = f"{metric_in(ranking)} is apart by {measure(apart.mean)} (95% interval {low} to {high})"
    than = ", by more than the luck of seeds"
    if found.answer == "not worse":
        than = f" by as much as {measure(ranking['margin'] or 0.0)}, which you would put up with"
    is_opposed = found.bought is not None and found.bought <= -OPPOSED
    doubt = f"; {pairing(found.bought)}" if is_opposed else ""
    doubt += of_samples(ranking)
    yield sentence(row, f"{first} is {row['answer']} than {second}{than}: {by}{doubt}{aside}")


def _best(results: Results, row: VerdictRow) -> Iterator[Sentence]:
    ranking = results.rankings.get(row["workload"])
    if ranking is None or row["answer"] != "yes":
        return
    found = standing(ranking)
    first, second = found.placed[:2]
    others = plural(len(found.beside), "other")
    beside = f" ({others} could not be compared)" if found.beside else ""
    best = f"{first.label} is best of {count(len(found.placed))}{beside}"
    yield sentence(
        row,
        f"{best}, by more than the luck of seeds: "
        f"{metric_in(ranking)} is {spread(first.scatter)}, and {spread(second.scatter)} with the "
        f"next, {second.label}{of_samples(ranking)}{without_number(ranking)}"
        f"{not_finite_beside(ranking)}",
    )


def not_measured(results: Results) -> list[Sentence]:
    """Say what could not be measured here, and why; what is most often in the way first."""
    reasons: dict[str, list[VerdictRow]] = {}
    for row in results.verdicts:
        if row["answer"] == "not run":
            reasons.setdefault(row["measured"], []).append(row)
    found = []
    for reason, rows in sorted(reasons.items(), key=lambda entry: -len(entry[1])):
        asked = [row for row in rows if _ran(results, row)]
        others = [row for row in rows if row not in asked]
        names = [_where_not(results, row["variant"], others) for row in others if row["variant"]]
        if others:
            what = listed(names) if names else others[0]["question"].removesuffix("?").lower()
            found.append(_open(others, f"not run here: {what} ({reason})"))
        if asked:
            names = listed(dict.fromkeys(row["variant"] for row in asked))
            questions = " ".join(dict.fromkeys(row["question"] for row in asked))
            found.append(_open(asked, f"not answered here of {names}: {questions} ({reason})"))
    return found


def _open(rows: Sequence[VerdictRow], says: str) -> Sentence:
    subjects = each_once(of for row in rows for of in sentence(row, "").subjects)
    return Sentence(subjects=subjects, says=says)


def _ran(results: Results, row: VerdictRow) -> bool:
    """Say whether a variant ran, and one question of it alone was left open, as of its timing."""
    names = "study", "workload", "variant"
    answered = {
        other["key"]
        for other in results.verdicts
        if other["answer"] != "not run" and all(other[name] == row[name] for name in names)
    }
    # A question that is answered at other sizes is one of these sizes.
    return bool(row["variant"] and answered) and row["key"] not in answered


def _where_not(results: Results, variant: str, rows: Sequence[VerdictRow]) -> str:
    """Name a variant that did not run, and the sizes if it ran at others of the same timing."""
    own = [row for row in rows if row["variant"] == variant]
    timing, path = timing_of(results, own[0]), own[0]["evidence"]
    if timing is None or any(row["evidence"] != path for row in own):
        return variant
    beside = [r for r in results.verdicts if (r["evidence"], r["variant"]) == (path, variant)]
    missing, asked = (
        {size for row in of if (size := size_of(results, row)) is not None} for of in (own, beside)
    )
    if not missing or missing == asked:
        return variant
    return f"{variant} {where(missing, asked, str(timing['settings']['timing'].size))}"
