"""What sweep and contest compare: two candidates by name, and which value of a metric is best."""

from collections.abc import Iterator
from typing import Any

from twinrun.config.definitions import Section
from twinrun.config.sound_part import SoundPart
from twinrun.wording import shown, suggestion

RANKED = ("sweep", "contest")
# Of this metric, the default, nobody needs to be told that more is better.
KNOWN_TO_BE_HIGHEST = "test_accuracy"


def resolved(config: Section) -> dict[str, Any]:
    """Return a config in which both candidates are workloads or variants of the study contest.

    Each is among the names that every study has; `best` is said of both studies.
    """
    found = dict(config)
    for study in RANKED:
        found[study] = {**config[study], "best": config[study]["best"] or "highest"}
    contest = found["contest"]
    found["contest"] = {**contest, kind_of(config): [contest["a"], contest["b"]]}
    return found


def kind_of(config: Section) -> str:
    """Say of which kind the candidates are, `workloads` or `variants`."""
    contest = config["contest"]
    return "variants" if contest["a"] in config["variants"] else "workloads"


def contradictions(part: SoundPart) -> Iterator[str]:
    """Find candidates that do not exist or are of two kinds, and metrics without a direction."""
    config = part.config
    for study in RANKED:
        if study in config["studies"]:
            asked = config[study]
            if asked["best"] is None and asked["metric"] != KNOWN_TO_BE_HIGHEST:
                yield (
                    f"{study}.best: say whether the highest or the lowest {shown(asked['metric'])} "
                    f"is best"
                )
    if "contest" not in config["studies"]:
        return
    a, b = config["contest"]["a"], config["contest"]["b"]
    if a == b:
        yield f"contest.b: {shown(b)} is a, too; name another candidate"
    kinds = {}
    for key, name in (("a", a), ("b", b)):
        found = [kind for kind in ("workloads", "variants") if part.may_name(kind, name)]
        if not found:
            known = suggestion(name, [*config["workloads"], *config["variants"]])
            yield f"contest.{key}: no workload or variant is called {shown(name)}{known}"
        elif all(name in config[kind] for kind in ("workloads", "variants")):
            yield f"contest.{key}: {shown(name)} is a workload and a variant; rename one of them"
        else:
            kinds[key] = found[0][:-1]
    if len({*kinds.values()}) > 1:
        yield (
            f"contest.b: {shown(b)} is a {kinds['b']} and a, {shown(a)}, a {kinds['a']}; name two "
            f"workloads or two variants"
        )
