"""Verdicts on a sweep: did its trials finish, and is its winner more than luck?

A choice is a set of hyperparameters and a variant, a trial one training of it from a seed. The
order of the choices under one seed says nothing of the order under another, so from one seed none
is called the best.
"""

import math
from collections.abc import Sequence

from twinrun.comparison.conditions import listed
from twinrun.comparison.noise_records import NoiseTable
from twinrun.comparison.ranking import NOT_LOGGED
from twinrun.comparison.study_records import Ranking, Trial
from twinrun.formatting import count, measure, p_value, plural
from twinrun.luck.floor import Floor, floors
from twinrun.luck.standing import Placed, Standing, standing
from twinrun.verdicts.evidence import Evidence
from twinrun.verdicts.means import (
    ALIKE,
    MOST_NAMED,
    NONE_AHEAD,
    UNMOVED,
    digits_apart,
    joined,
    seeds_still,
    some_of,
    spread,
)
from twinrun.verdicts.noise import told
from twinrun.verdicts.rows import Answer, Key, Verdict
from twinrun.verdicts.unmoved import begun_alike, not_counted, stand_still

FINISHED = "Did every trial of the sweep finish?"
BEST = "Is one choice better than all others by more than the luck of seeds?"


def finished(ranking: Evidence[Ranking]) -> Verdict:
    """Say whether every trial finished."""
    number, done = len(ranking.found["trials"]), ranking.found["finished"]
    clauses = [f"{done} of {plural(number, 'trial')} finished"]
    clauses += [f"{joined(labels)} lead to the same parameters" for labels in ranking.found["same"]]
    broken = [
        f"{trial['label']} ({trial['lacks']})"
        for trial in ranking.found["trials"]
        if trial["ended"] == "finished" and trial["lacks"] and trial["lacks"] not in NOT_LOGGED
    ]
    if broken:
        clauses.append(f"but without a number: {some_of(broken)}")
    measured = "; ".join(clauses)
    return _verdict(ranking, "finished", FINISHED, "yes" if done == number else "no", measured)


def best(ranking: Evidence[Ranking], noises: Sequence[NoiseTable] = ()) -> list[Verdict]:
    """Name the best choice, or those between which it is undecided; nothing if none finished.

    Args:
        ranking: of one workload.
        noises: how far seeds move workloads that are trained as long.
    """
    found = ranking.found
    if not any(choice["rank"] is not None for choice in found["choices"]):
        return _unranked(ranking)
    answer, measured = ground(found, standing(found), _floor(found, noises))
    if found["conflict"] is not None:
        # No number of seeds would tell which part of an order is the machines'.
        known = f"; {measured}" if answer == "yes" else _beside(found, standing(found))
        answer, measured = "not comparable", f"{found['conflict']}{known}"
    return [_verdict(ranking, "best", BEST, answer, measured)]


def _unranked(ranking: Evidence[Ranking]) -> list[Verdict]:
    """Say why trials that finished are not ranked; of the others the other verdict speaks."""
    found = ranking.found
    if not found["finished"]:
        return []
    done = [trial for trial in found["trials"] if trial["ended"] == "finished"]
    if any(trial["lacks"] is None for trial in done):
        return [
            _verdict(
                ranking,
                "best",
                BEST,
                "not comparable",
                f"no choice has a number for every seed{_beside(found, standing(found))}",
            )
        ]
    if any(trial["value"] is not None for trial in done):
        measured = f"{found['metric']} is no number in any trial"
    elif reasons := dict.fromkeys(
        trial["lacks"] for trial in done if trial["lacks"] and trial["lacks"] not in NOT_LOGGED
    ):
        measured = f"no trial has a result: {'; '.join(reasons)}"
    else:
        known = ", ".join(dict.fromkeys(name for trial in done for name in trial["metrics"]))
        measured = (
            f"sweep.metric: no trial has logged {found['metric']!r}; what they log: "
            f"{known or 'nothing'}"
        )
    return [_verdict(ranking, "best", BEST, "not run", measured)]


def metric_in(ranking: Ranking) -> str:
    """Say which metric is compared, and from where: the same for all.

    >>> known = {"metric": "loss", "measured_in": "epoch", "epoch": 3, "trained": None}
    >>> metric_in({**known, "other_samples": False})
    'loss in epoch 3'
    >>> metric_in({**known, "measured_in": "test", "other_samples": True})
    'loss in the test (not of the same samples for all)'
    >>> metric_in({**known, "epoch": None, "other_samples": False})
    'loss'
    """
    where = " in the test" if ranking["measured_in"] == "test" else f" in epoch {ranking['epoch']}"
    if ranking["measured_in"] != "test" and ranking["epoch"] is None:
        where = ""  # none has logged it
    where += " (not of the same samples for all)" if ranking["other_samples"] else ""
    trained = "" if ranking["trained"] is None else f" {ranking['trained']}"
    return f"{ranking['metric']}{where}{trained}"


def _floor(ranking: Ranking, noises: Sequence[NoiseTable]) -> Floor | None:
    """Return how far seeds move the metric of a ranking: of several variants, the furthest."""
    if ranking["measured_in"] != "test":
        return None
    known = [
        floor
        for table in noises
        if table["workload"] == ranking["workload"] and table["reason"] is None
        for floor in floors(table)
        if floor.metric == ranking["metric"] and floor.luck
    ]
    return max(known, key=lambda floor: floor.luck, default=None)


def ground(ranking: Ranking, found: Standing, floor: Floor | None = None) -> tuple[Answer, str]:
    """Say whether the first choice is the best, and what that rests on.

    Args:
        ranking: at least one choice has a rank.
        found: how its choices stand.
        floor: how far seeds move its metric, where that was measured.
    """
    first, rivals = found.placed[0], found.rivals
    measured_as, beside = f"{ranking['best']} {metric_in(ranking)}", _beside(ranking, found)
    names = some_of([choice.label for choice in found.firsts])
    alone = f"{measured_as}: {measure(first.scatter.mean)} with {names}"
    if len(found.placed) < 2:
        return "undecided", f"{alone}; there is no other choice to compare it with{beside}"
    if found.seeds < 2:
        return "undecided", f"{alone}; {_from_one_seed(found, floor)}{beside}"
    mean = f"{measured_as}, mean over {count(found.seeds)} seeds"
    if not rivals:
        most = max(choice.p or 0 for choice in found.placed[1:])
        told = f"all others are told from it (p {p_value(most)})"
        next_one = f"the next is {_shown(found.placed[1])}"
        of = f" of the {count(len(found.placed))} that can be compared" if found.beside else ""
        samples = of_samples(ranking)
        return "yes", f"best{of}: {_shown(first)}; {mean}; {told}, {next_one}{samples}{beside}"
    digits = digits_apart([choice.scatter for choice in (first, *rivals)])
    named = some_of([_shown(choice, digits) for choice in (first, *rivals)])
    values = {choice["label"]: choice["values"] for choice in ranking["choices"]}
    are_alike = not found.unmoved and all(values[r.label] == values[first.label] for r in rivals)
    still = ALIKE.format(whom="all of these") if are_alike else _still(found)
    if found.unmoved:
        compared = [c for c in (first, *found.unmoved) if not c.scatter.deviation]
        beside = _beside(ranking, found, [choice.label for choice in compared])
    return "undecided", f"undecided between {named}; {mean}; {still}{beside}"


def _from_one_seed(found: Standing, floor: Floor | None) -> str:
    """Say how far the first is from the next, beside what is luck; one seed decides nothing."""
    first, behind = found.placed[0], found.placed[len(found.firsts) :]
    if not behind:
        return f"{NONE_AHEAD}: list more under sweep.seeds"
    second = behind[0]
    apart = abs(first.scatter.mean - second.scatter.mean)
    if floor is None:
        return "from one seed only, so this order may be luck: list more under sweep.seeds"
    known = (
        f"the next, {second.label}, is apart by {measure(apart)}; by the study noise, "
        f"with one run a side, {told(floor)}"
    )
    aside = f": list more under sweep.seeds{not_counted(floor.still, ' there')}"
    if apart < floor.luck:
        return f"{known}{aside}"
    return (
        f"{known}; but that is of the workload's own hyperparameters, and with others seeds may "
        f"matter more{aside}"
    )


def _still(found: Standing) -> str:
    """Say what it would take to decide."""
    unmoved, are_all = found.unmoved, len(found.unmoved) == len(found.rivals)
    if found.still:
        why = stand_still({c.label: c.still for c in found.still if c.still}, found.seeds)
        return why if are_all else f"{why}; of the others {seeds_still(found.needed, found.seeds)}"
    if are_all:
        is_tied = all(rival.rank == 1 for rival in unmoved)
        return "no seed changes these values, and none is ahead" if is_tied else UNMOVED
    still = seeds_still(found.needed, found.seeds)
    if not unmoved:
        return still
    # The first is as unmoved as these: it is told from the others by their scatter alone.
    names = joined([found.placed[0].label, *(rival.label for rival in unmoved)])
    return f"no seed changes the values of {names}; of the others {still}"


def _shown(choice: Placed, digits: int = 3) -> str:
    return f"{choice.label} with {spread(choice.scatter, digits)}"


def _beside(ranking: Ranking, found: Standing, said: Sequence[str] = ()) -> str:
    """Name the choices and the seeds that are not compared, and what no seed moves.

    Args:
        ranking: of the choices.
        found: how they stand.
        said: labels of those of which it is said that no seed changes their values.
    """
    text = "".join(f"; {label} is not comparable ({why})" for label, why in found.beside[:3])
    text += f"; nor are {len(found.beside) - 3} more" if len(found.beside) > 3 else ""
    text += without_number(ranking) + not_finite_beside(ranking) + resumed_beside(ranking)
    return text + begun_alike(ranking, {*said, *(c.label for c in found.still if c.still)})


def of_samples(ranking: Ranking) -> str:
    """Say that seeds are not all that a result owes to luck."""
    if ranking["measured_in"] == "test":
        return (
            "; by the luck of seeds alone: other samples than those of this test may say otherwise"
        )
    return (
        "; by the luck of seeds alone: other samples than those of this epoch may say otherwise, "
        "and whether they were the same for all was not looked at"
    )


def without_number(ranking: Ranking) -> str:
    """Name the seeds that gave no choice a number."""
    seeds = ", ".join(map(str, ranking["without_number"]))
    return f"; left aside: seed {seeds}, which gave none a number" if seeds else ""


def not_finite_beside(ranking: Ranking) -> str:
    """Name what raises a doubt in the ranked trials: what else they measured to be no number."""
    found: dict[str, list[str]] = {}
    for trial in ranking["trials"]:
        for name, value in trial["metrics"].items():
            if trial["lacks"] is None and not math.isfinite(value):
                found.setdefault(f"{name} is no number", []).append(_name(ranking, trial))
        for doubt in trial["doubts"] if trial["lacks"] is None else []:
            found.setdefault(doubt, []).append(_name(ranking, trial))
    named = [
        f"of {joined(of) if len(of) <= MOST_NAMED else f'{count(len(of))} trials'} {what}"
        for what, of in found.items()
    ]
    return f"; but {'; '.join(named)}" if named else ""


def _name(ranking: Ranking, trial: Trial) -> str:
    """Name a trial; one of a contest by its candidate and seed."""
    label = next((c["label"] for c in ranking["choices"] if c["name"] == trial["choice"]), "")
    is_said = label in trial["label"] or len(ranking["choices"]) == 1
    return trial["label"] if is_said else f"{label}, seed {trial['seed']}"


def resumed_beside(ranking: Ranking) -> str:
    """Name the trials that were resumed: what no checkpoint holds may have moved their values."""
    named = [
        f"{_name(ranking, trial)} after {listed('step', trial['resumed_at'])}"
        for trial in ranking["trials"]
        if trial["resumed_at"]
    ]
    if len(named) > MOST_NAMED:
        return f"; {count(len(named))} of {plural(len(ranking['trials']), 'run')} were resumed"
    return f"; resumed: {', '.join(named)}" if named else ""


def _verdict(
    ranking: Evidence[Ranking], key: Key, question: str, answer: Answer, measured: str
) -> Verdict:
    return {
        "key": key,
        "workload": ranking.found["workload"],
        "variant": "",
        "question": question,
        "answer": answer,
        "measured": measured,
        "evidence": ranking.path,
    }
