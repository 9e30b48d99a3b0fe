"""Rankings of choices as `rank` writes them, from values by seed alone."""

import math

from twinrun.comparison.ranking import ranked

# What a ranking has beside its trials.
WITHOUT_CHOICES = {
    "measured_in": "test",
    "epoch": None,
    "other_samples": False,
    "seeds": [1],
    "trained": None,
    "margin": None,
    "without_number": [],
    "contestants": [],
    "conflict": None,
    "choices": [],
    "same": [],
}
OF_TRIAL = {
    "choice": "w/v",
    "seed": 1,
    "lacks": None,
    "weights_sha256": None,
    "predictions_sha256": None,
    "predicted_on": None,
    "tested": {},
    "begun": {
        **dict.fromkeys(["weights", "batches", "random", "random_after", "drawn"]),
        "states": {},
        "own": {},
    },
    "doubts": [],
    "resumed_at": [],
}


def states(seed, since):
    """RNG states behind three steps, of each library those that no seed moves from a step on."""
    return {
        of: {f"{n}": "" if n >= since.get(of, 4) else f"{seed}" for n in (1, 2, 3)}
        for of in ("torch", "cuda", "numpy", "python")
    }


def ranking(
    values,
    *,
    best="highest",
    contestants=(),
    conflict=None,
    trained=None,
    margin=None,
    are_same=False,
    still=(),
    begun=None,
    since=None,
    drawn=("torch",),
    own=None,
):
    """A ranking of choices, `{name: [value by seed]}`; a text is why there is no number.

    Args:
        still: the names of those whose weights no seed moves.
        begun: by name, which of `weights`, `batches`, `random` and `random_after` no seed moves as
            it begins.
        since: by name, by library, the step from which on no seed moves its RNG states; of three.
        drawn: the libraries whose generators steps of all draw from.
        own: by name, a generator that no seed moves.
    """
    trials = [
        {
            "rank": None,
            "choice": name,
            "seed": seed,
            "point": {"lr": name, "seed": seed},
            "label": f"lr {name}, seed {seed}",
            "value": None if isinstance(value, str) else value,
            "lacks": value if isinstance(value, str) else None if math.isfinite(value) else "nan",
            "metrics": {},
            "ended": value if isinstance(value, str) else "finished",
            "run": f"{name}/{seed}",
            "weights_sha256": f"{'' if are_same else name}{'' if name in still else seed}",
            "doubts": [],
            "resumed_at": [],
            "predictions_sha256": f"{'' if are_same else name}{seed}",
            "predicted_on": "samples",
            "tested": {},
            "begun": {
                part: f"{name}{'' if part in (begun or {}).get(name, ()) else seed}"
                for part in ("weights", "batches", "random", "random_after")
            }
            | {"states": states(seed, (since or {}).get(name, {})), "drawn": [*drawn]}
            | {"own": {"A.moved": f"{seed}"} | ({own[name]: ""} if name in (own or {}) else {})},
        }
        for name, of in values.items()
        for seed, value in enumerate(of, start=1)
    ]
    seeds = list(dict.fromkeys(trial["seed"] for trial in trials))
    known = [s for s in seeds if any(t["seed"] == s and t["lacks"] is None for t in trials)]
    labels = {name: name for name in contestants} or None
    return {
        "workload": "digits",
        "metric": "acc",
        "measured_in": "test",
        "epoch": None,
        "other_samples": False,
        "best": best,
        "seeds": known,
        "trained": trained,
        "margin": margin,
        "without_number": [seed for seed in seeds if seed not in known],
        "contestants": list(contestants),
        "conflict": conflict,
        "choices": ranked(trials, known, best, labels),
        "finished": sum(trial["ended"] == "finished" for trial in trials),
        "same": [],
        "trials": trials,
    }
