"""The section of the study contest: which of two is better, or just luckier?"""

from twinrun.comparison.study_records import Ranking
from twinrun.luck.contest import candidates, contest
from twinrun.report.results import Results
from twinrun.verdicts.contest import QUESTION, measured
from twinrun.verdicts.sweep import metric_in


def section(results: Results) -> dict[str, object]:
    """Return what the section's template needs."""
    study = results.config["contest"]
    return {
        "a": study["a"],
        "b": study["b"],
        "metric": study["metric"],
        "best": study["best"],
        "margin": study["margin"],
        "seeds": study["seeds"],
        "absent": results.absent("contest"),
        # Where both are workloads, the contest is called after the first.
        "workloads": [
            {"name": name, "contests": _contests(results, name)}
            for name in study["workloads"]
            if name != study["b"]
        ],
    }


def _contests(results: Results, workload: str) -> list[dict[str, object]]:
    return [
        _contest(path, ranking)
        for path, ranking in results.contests.items()
        if ranking["workload"] == workload
    ]


def _contest(path: str, ranking: Ranking) -> dict[str, object]:
    found, pair = contest(ranking), candidates(ranking)
    scatters = (found.first, found.second)
    return {
        "path": path,
        "of": pair[0]["name"],
        "question": QUESTION.format(a=pair[0]["label"], b=pair[1]["label"]),
        "answer": found.answer,
        "measured": measured(ranking, found),
        "metric_in": metric_in(ranking),
        "seeds": list(dict.fromkeys(trial["seed"] for trial in ranking["trials"])),
        "candidates": [
            {
                "label": choice["label"],
                "scatter": scatter,
                "values": [t["value"] for t in ranking["trials"] if t["choice"] == choice["name"]],
            }
            for choice, scatter in zip(pair, scatters, strict=True)
        ],
    }
