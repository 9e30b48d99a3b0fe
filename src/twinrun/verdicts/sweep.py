"""Verdicts on a sweep: did its trials finish, and is its winner more than luck?

A trial is one training: hyperparameters and a seed. The order of the trials under one seed says
nothing of the order under another, so from one seed none is called the best.
"""

from collections.abc import Iterable, Sequence

from twinrun.comparison.study_records import Ranking, Trial
from twinrun.formatting import measure, plural
from twinrun.verdicts.evidence import Evidence
from twinrun.verdicts.rows import Answer, Key, Verdict

FINISHED = "Did every trial of the sweep finish?"
BEST = "Do the same hyperparameters come first for every seed?"


def finished(ranking: Evidence[Ranking]) -> Verdict:
    """Say whether every trial finished."""
    number, done = len(ranking.found["trials"]), ranking.found["finished"]
    clauses = [f"{done} of {plural(number, 'trial')} finished"]
    clauses += [f"{_and(labels)} lead to the same parameters" for labels in ranking.found["same"]]
    measured = "; ".join(clauses)
    return _verdict(ranking, "finished", FINISHED, "yes" if done == number else "no", measured)


def _and(labels: Sequence[str]) -> str:
    return f"{', '.join(labels[:-1])} and {labels[-1]}"


def best(ranking: Evidence[Ranking]) -> list[Verdict]:
    """Name the first trial, and say whether every seed confirms it; nothing if none finished."""
    found = ranking.found
    # Trials without a rank come last: where the first has none, nobody has one.
    first = found["trials"][0]
    if first["rank"] is None:
        return _unranked(ranking)
    answer, ground = confirmation(found["trials"])
    value = f"{found['best']} {found['metric']}: {measure(first['value'])} with {first['label']}"
    return [_verdict(ranking, "best", BEST, answer, f"{value}; {ground}")]


def _unranked(ranking: Evidence[Ranking]) -> list[Verdict]:
    """Say why trials that finished are not ranked; of the others the other verdict speaks."""
    found = ranking.found
    if not found["finished"]:
        return []
    done = [trial for trial in found["trials"] if trial["ended"] == "finished"]
    if any(trial["value"] is not None for trial in done):
        measured = f"{found['metric']} is no number in any trial"
    else:
        known = ", ".join(dict.fromkeys(name for trial in done for name in trial["metrics"]))
        measured = (
            f"sweep.metric: no trial has logged {found['metric']!r}; what they log: "
            f"{known or 'nothing'}"
        )
    return [_verdict(ranking, "best", BEST, "not run", measured)]


def confirmation(trials: Iterable[Trial]) -> tuple[Answer, str]:
    """Say whether the hyperparameters that come first do so for every seed that was asked for.

    Args:
        trials: of a ranking, the best first; at least one has a rank.

    Returns:
        The answer and, in a clause, what it rests on.
    """
    trials = list(trials)
    ranked = [trial for trial in trials if trial["rank"] is not None]
    lacking = len(trials) - len(ranked)
    lack = f"; {lacking} of {plural(len(trials), 'trial')} gave no number" if lacking else ""
    if len({_choice(trial) for trial in ranked}) < 2:
        return "undecided", f"there is no other trial to compare it with{lack}"
    # A point has a seed only where trials differ in it: None is the one seed of all.
    of_seeds: dict[int | None, list[Trial]] = {trial["point"].get("seed"): [] for trial in trials}
    for trial in ranked:
        of_seeds[trial["point"].get("seed")].append(trial)
    known = [of_seed for of_seed in of_seeds.values() if of_seed]
    if len(known) < 2:
        return "undecided", f"from one seed only, so this order may be luck{lack}"
    winner = _choice(ranked[0])
    # A first place that is shared is not won.
    won = sum(_firsts(of_seed) == {winner} for of_seed in known)
    ground = f"these hyperparameters come first for {won} of {len(of_seeds)} seeds{lack}"
    if won < len(known):
        return "no", ground
    # Of a seed without any number nobody knows who would have come first.
    return "yes" if len(known) == len(of_seeds) else "undecided", ground


def _choice(trial: Trial) -> str:
    """Return what was chosen in a trial: its hyperparameters and variant, not the seed."""
    # repr, since a hyperparameter may be a list, which has no hash.
    return repr({name: value for name, value in trial["point"].items() if name != "seed"})


def _firsts(trials: Sequence[Trial]) -> set[str]:
    """Return the choices that share the best value among ranked trials, the best first."""
    return {_choice(trial) for trial in trials if trial["value"] == trials[0]["value"]}


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
