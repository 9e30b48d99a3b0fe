"""The verdict on two candidates: is the first better than the second, or just luckier?"""

from twinrun.comparison.study_records import Ranking
from twinrun.formatting import count, measure, p_value, percent, plural
from twinrun.luck.contest import Contest, candidates, contest, may_diverge
from twinrun.luck.forecast import POWER
from twinrun.luck.welch import Difference, same
from twinrun.verdicts.evidence import Evidence
from twinrun.verdicts.means import ALIKE, NONE_AHEAD, digits_apart, seeds_still, spread
from twinrun.verdicts.rows import Verdict
from twinrun.verdicts.sweep import (
    metric_in,
    not_finite_beside,
    of_samples,
    resumed_beside,
    stand_still,
    without_number,
)

QUESTION = "Is {a} better than {b}?"
# Where one of them could not run.
BETTER = "Is it better than the other candidate?"
SURE = 0.99
OPPOSED = 0.2  # so much more variance: simulated, Welch's test then errs in 6 % and more


def verdict(ranking: Evidence[Ranking]) -> Verdict:
    """Say whether the first of two candidates is better."""
    found, (a, b) = contest(ranking.found), candidates(ranking.found)
    workload, _, variant = a["name"].partition("/")
    return {
        "key": "contest",
        "workload": workload,
        "variant": variant,
        "question": QUESTION.format(a=a["label"], b=b["label"]),
        "answer": found.answer,
        "measured": measured(ranking.found, found),
        "evidence": ranking.path,
    }


def measured(ranking: Ranking, found: Contest) -> str:
    """Say what a contest rests on."""
    if found.first is None or found.second is None:
        return (found.reason or "") + without_number(ranking)
    a, b = candidates(ranking)
    seeds, digits = found.first.number, digits_apart((found.first, found.second))
    compared = (
        f"{ranking['best']} {metric_in(ranking)} is best, mean over {count(seeds)} "
        f"seed{'' if seeds == 1 else 's'}: {spread(found.first, digits)} of {a['label']}, "
        f"{spread(found.second, digits)} of {b['label']}"
    )
    aside = of_samples(ranking) + without_number(ranking) + not_finite_beside(ranking)
    aside += resumed_beside(ranking)
    if seeds < 2:
        is_tied = found.first.mean == found.second.mean
        luck = NONE_AHEAD if is_tied else "from one seed only, so this may be luck"
        luck += ": list more under contest.seeds"
        return f"{compared}; {luck}{aside}"
    within = within_margin(ranking, found)
    if found.is_same:
        # Without a margin, too: no number of seeds tells a training from itself.
        return f"{compared}; {alike_from(seeds)}{aside}"
    if found.still is not None:
        return f"{compared}; {stand_still([found.still], seeds)}{aside}"
    if found.difference is None:
        are_same = same(found.first, found.second)
        alike = "both give the same, but for a millionth" if are_same else "no seed changes that"
        if a["values"] == b["values"]:
            alike = "both give the same from each of these seeds"
        luck = "" if are_same else ", so how much is luck was not measured"
        return f"{compared}; {alike}{luck}{aside}"
    apart = f"apart by {_apart(found.difference)}, p {p_value(found.difference.p)}"
    if found.answer == "undecided":
        alike = ALIKE.format(whom="both") if a["values"] == b["values"] else None
        still = f"; {alike or seeds_still(found.needed, seeds)}"
    else:
        still = "" if found.answer == "not worse" else f"; {_power(found)}"
    return f"{compared}; {apart}{within}{still}; {pairing(found.bought)}{aside}"


def alike_from(seeds: int) -> str:
    """Say what it rests on that two candidates are the same."""
    share = f"{may_diverge(seeds):.0%}"
    return (
        f"both end in the same weights, predictions and test metrics from each of these "
        f"{count(seeds)} seeds; from other seeds they may diverge, in up to {share} of trainings "
        f"(with 95% confidence)"
    )


def within_margin(ranking: Ranking, found: Contest) -> str:
    """Say what a margin makes of a contest; nothing without one, or where it is better anyway."""
    if ranking["margin"] is None or found.answer == "better":
        return ""
    margin = f"the margin of {measure(ranking['margin'])}"
    if found.answer == "not worse":
        return (
            f"; not worse by as much as {margin} (if the values of seeds are normally distributed, "
            f"an error in 2 to 3.5% of contests of which {margin} is the truth)"
        )
    if found.answer == "worse" and found.difference is not None:
        least = min(map(abs, found.difference.interval))
        is_beyond = least > ranking["margin"]
        return f"; by more than {margin}" if is_beyond else f"; perhaps by less than {margin}"
    needed = found.needed_within
    if needed is None:
        return f"; not shown to be within {margin}"
    more = max(needed, found.first.number + 1 if found.first else 0)
    return f"; {plural(more, 'seed')} would probably show that it is not worse by {margin}"


def _apart(found: Difference) -> str:
    low, high = found.interval
    return f"{measure(found.mean)} ({measure(low)} to {measure(high)})"


def _power(found: Contest) -> str:
    power = found.power or 0
    # What is not certain is never rounded to it.
    shown = "> 0.99" if power > SURE else f"{power:.2f}"
    few = ", which is little: a difference that is found by luck looks too large"
    return f"as many seeds tell such a difference with probability {shown}" + (
        few if power < POWER else ""
    )


def pairing(bought: float | None) -> str:
    """Say what pairing by seed would do to the variance, which may be a doubt."""
    if bought is not None and bought <= -OPPOSED:
        return (
            f"pairing by seed would add {percent(-bought)} to the variance: what is lucky for one "
            f"is unlucky for the other, and the answer errs in more than 5% of contests"
        )
    if bought is None or bought <= 0:
        return "nothing shows that pairing by seed would buy anything"
    return f"pairing by seed takes away {percent(bought)} of the variance"
