"""Verdicts on noise: how much is luck, and what is each change worth beside it?"""

from collections.abc import Sequence
from statistics import median
from typing import get_args

from twinrun.comparison.conditions import listed
from twinrun.comparison.noise_records import Measure, NoiseRun, NoiseTable
from twinrun.formatting import count, digits_for, measure, p_value, percent, plural
from twinrun.luck.floor import Floor, floors, still_of
from twinrun.luck.scale import Scale, has_grown, scale_of
from twinrun.luck.sensitivity import seeds_are_more, told_from
from twinrun.luck.worth import Weighed, Worth, finer, weigh
from twinrun.verdicts.evidence import Evidence
from twinrun.verdicts.means import some_of
from twinrun.verdicts.rows import Answer, Key, Verdict
from twinrun.verdicts.unmoved import not_counted

SEED_OR_ROUNDING = "Does another seed change the result more than rounding does?"
WORTH = "What are changes worth, on the scale of rounding and of seeds?"
LUCKY_SEED = "Is one of the seeds an outlier among the others?"
OTHER_DATA = {
    "test": (
        "another seed is tested on other data, so that luck is in part that of the samples: a seed "
        "of its own for the data module (from_run: {seed: null}) keeps the split"
    ),
    "predict": "another seed predicts other data, so that rows of predictions are not compared",
}
BY_PARAMETERS = (
    "judged by the parameters alone, in which two seeds may be apart before the first step: a "
    "metric of the test, or predicted numbers, would say more"
)
TOO_SHORT = (
    "of these no more is left than the last place of what is predicted, where rounding begins; "
    "over more steps they grow"
)
OF_KIND = {"perturbation": "one unit in the last place", "seed": "another seed"}


def verdicts(table: Evidence[NoiseTable]) -> list[Verdict]:
    """Return the verdicts on the scale of one workload and variant."""
    found = table.found
    if found["reason"] is not None:
        return [_verdict(table, "seed_or_rounding", SEED_OR_ROUNDING, "not run", found["reason"])]
    scale, noise_floors, still = scale_of(found), floors(found), not_counted(still_of(found))
    answers: dict[bool | None, Answer] = {True: "yes", False: "no", None: "undecided"}
    answer = answers[seeds_are_more(scale)]
    bound = "seeds are shown to go less than twice as far as rounding; " if answer == "no" else ""
    said = bound + ground(found, scale)
    rows = [_verdict(table, "seed_or_rounding", SEED_OR_ROUNDING, answer, said)]
    weighed = [(run, weigh(scale, run)) for run in found["runs"] if run["kind"] == "change"]
    # What is equal or was not run has a verdict of its own study.
    for worth in [answer for answer in get_args(Worth) if answer not in ("equal", "not run")]:
        # One run may be a change of two studies.
        clauses = dict.fromkeys(clause(run, of) for run, of in weighed if of.answer == worth)
        if clauses:
            aside = still if worth.endswith("another seed") else ""
            rows.append(_verdict(table, "worth", WORTH, worth, "; ".join(clauses) + aside))
    outliers = [outlier for entry in noise_floors for outlier in outliers_of(entry)]
    if outliers:
        rows.append(_verdict(table, "lucky_seed", LUCKY_SEED, "yes", "; ".join(outliers) + still))
    return rows


def ground(table: NoiseTable, scale: Scale) -> str:
    """Say what is known of luck: how far rounding and seeds go, and which differences are luck."""
    clauses = [
        far for m in scale.measures if m["kind"] != "metric" and (far := _far(table, scale, m))
    ]
    clauses += [luck(found) for found in floors(table)]
    if (times := told_from(scale)) is not None:
        clauses.append(
            f"a change is told from rounding, with a probability of 0.8, if it goes "
            f"{measure(times, 2)} times as far"
        )
    if table["half_a_seed"] is not None and table["steps"] is not None:
        since = (
            f", if not since step {count(table['half_since'])}," if "half_since" in table else ""
        )
        clauses.append(
            f"after step {count(table['half_a_seed'])} of {count(table['steps'])}{since} rounding "
            f"has moved the parameters half as far as a seed"
        )
    if any(run["kind"] == "repeat" and run["answer"] == "differs" for run in table["runs"]):
        clauses.append(
            "the baseline does not repeat, and what differs by itself counts as rounding"
        )
    if any(label == f"seed {table['seed']}" for of in floors(table) for label, *_ in of.outliers):
        clauses.append(
            f"the reference, seed {table['seed']}, is itself an outlier, and all distances are to "
            f"it: list another seed first"
        )
    if sum(run["kind"] == "seed" for run in table["runs"]) < 2:
        clauses.append("from fewer than three seeds: list more under noise.seeds")
    if {of["kind"] for of in scale.measures} == {"parameters"}:
        clauses.append(BY_PARAMETERS)
    if scale.absorbed:
        perturbed = [run for run in table["runs"] if run["kind"] == "perturbation"]
        is_short = len(perturbed) - scale.absorbed < 2
        is_short &= any(run["answer"] == "differs" for run in perturbed)
        helps = finer(scale.coarse) if scale.coarse else TOO_SHORT if is_short else None
        clauses.append(
            f"{count(scale.absorbed)} of {plural(len(perturbed), 'perturbation')} came to nothing"
            + (f": {helps}" if helps else "")
        )
    resumed = [
        f"{run['label']} after {listed('step', at)}"
        for run in table["runs"]
        if run["kind"] != "change" and "resumed_at" in run and (at := run["resumed_at"])
    ]
    clauses += [f"resumed: {', '.join(resumed)}"] if resumed else []
    clauses += _doubts([run for run in table["runs"] if run["kind"] != "change"])
    clauses += [OTHER_DATA[phase] for phase in table["other_data"]]
    clauses += [f"{name} is not measured: {why}" for name, why in table["not_measured"].items()]
    if scale.diverged:
        clauses.append(f"what is no number counts as further than any: {'; '.join(scale.diverged)}")
    if scale.left_out:
        clauses.append(f"left aside: {'; '.join(scale.left_out)}")
    said = "; ".join(clauses) or "there is nothing to compare the runs by"
    return said + not_counted(still_of(table))


def _doubts_of(run: NoiseRun) -> Sequence[str]:
    if "doubts" not in run:
        return ()
    return run["doubts"]


def _doubts(runs: Sequence[NoiseRun]) -> list[str]:
    """Say what puts the scale in doubt, of which of its runs."""
    found: dict[str, list[str]] = {}
    for run in runs:
        for doubt in _doubts_of(run):
            found.setdefault(doubt, []).append(run["label"])
    return [f"but of {some_of(labels)} {doubt}" for doubt, labels in found.items()]


def _far(table: NoiseTable, scale: Scale, of: Measure) -> str | None:
    # As in the tests, the perturbations that came to nothing do not count, if any did not.
    grown = [r for r in table["runs"] if _has(r, "perturbation", of["name"])]
    grown = [run for run in grown if has_grown(run, scale.measures)] or grown
    seeds = [run for run in table["runs"] if _has(run, "seed", of["name"])]
    medians = {
        kind: [run["values"][of["name"]] for run in runs]
        for kind, runs in (("perturbation", grown), ("seed", seeds))
    }
    said = [
        f"{distance(of, median(values))} by {OF_KIND[kind]}"
        for kind, values in medians.items()
        if values
    ]
    return f"{what(of)}: {', '.join(said)} (medians)" if said else None


def _has(run: NoiseRun, kind: str, name: str) -> bool:
    return run["kind"] == kind and name in run["values"]


def what(of: Measure) -> str:
    """Say what a measure measures."""
    return {
        "metric": of["name"],
        "rows": f"rows of {of['name']} whose largest number changes place",
        "values": f"values of {of['name']} that change",
        "numbers": f"relative L2 distance of {of['name']}",
        "parameters": "relative L2 distance of the parameters",
    }[of["kind"]]


def distance(of: Measure, value: float) -> str:
    """Write the value of a measure."""
    return percent(value) if of["kind"] in ("rows", "values") else measure(value)


def luck(found: Floor) -> str:
    """Say which differences of a metric are luck, with one run a side."""
    every = found.seeds.number + found.without
    alone = f" (by {count(found.seeds.number)} of {plural(every, 'seed')}" if found.without else ""
    alone += f": {count(found.without)} gave it no number)" if found.without else ""
    if not found.seeds.value:
        none = f"none of these {count(found.seeds.number)} seeds moves {found.metric}"
        return f"{none} by more than a millionth{alone}"
    more = found.is_beyond and found.more_seeds_help
    return f"with one run a side, {told(found)}{alone}" + (
        ": list more under noise.seeds" if more else ""
    )


def told(found: Floor) -> str:
    """Say which differences are luck, also of a metric that cannot have such differences."""
    least, is_share = measure(found.luck, 2), found.samples is not None
    if not found.is_beyond:
        points = f" ({measure(100 * found.luck, 2)} points)" if is_share else ""
        return f"differences of {found.metric} below {least}{points} are luck"
    none = f"{count(found.seeds.number)} seeds tell no difference of {found.metric}"
    if is_share and found.luck > 1:
        return (
            f"{none} from luck: it would have to be {least}, and of a share of samples none is "
            f"above 1"
        )
    return (
        f"{none} below {least} from luck, and none of their values is as large "
        f"({measure(found.largest)} at most)"
    )


def clause(run: NoiseRun, of: Weighed) -> str:
    """Say of a change what its answer rests on."""
    if of.reason is not None and of.rounding is None:
        return f"{run['label']} ({of.reason})"
    said = [of.reason] if of.reason else []
    said += [
        f"{kind}: p {p_value(tested.p)} by {tested.by}"
        for kind, tested in (("rounding", of.rounding), ("another seed", of.seeds))
        if tested is not None and (kind == "rounding" or of.answer != "no more than rounding")
    ]
    if of.answer == "undecided" and of.waits_for is not None:
        said.append(needed(of))
    # Of the stops of the study resume the label says so.
    if run["study"] != "resume" and "resumed_at" in run and (at := run["resumed_at"]):
        said.append(f"resumed after {listed('step', at)}")
    said += [f"but {doubt}" for doubt in _doubts_of(run)]
    return f"{run['label']} ({', '.join(said)})" if said else run["label"]


def needed(of: Weighed) -> str:
    """Say how many more runs would decide."""
    kind = of.waits_for or "perturbation"
    if of.needed is None:
        more = "list more" if of.reason else "no number of"
        return f"{more} {kind}s" + ("" if of.reason else " would decide, if they go on as they are")
    return f"{plural(of.needed, f'more {kind}')} would probably decide"


def outliers_of(found: Floor) -> list[str]:
    """Say which seed is an outlier by a metric."""
    said = []
    for label, value, p in found.outliers:
        digits = digits_for(max(abs(value), abs(found.mean)), abs(value - found.mean), 4)
        said.append(
            f"{label} with {found.metric} {measure(value, digits)}, where the mean is "
            f"{measure(found.mean, digits)} (Grubbs' test, if seeds are normally distributed, "
            f"p {p_value(p)})"
        )
    return said


def _verdict(
    table: Evidence[NoiseTable], key: Key, question: str, answer: Answer, measured: str
) -> Verdict:
    return {
        "key": key,
        "workload": table.found["workload"],
        "variant": table.found["variant"],
        "question": question,
        "answer": answer,
        "measured": measured,
        "evidence": table.path,
    }
