"""From comparisons and timings to verdicts: question, answer, figure, evidence, a line each.

A verdict says what was measured, never what was expected. A timing whose interval holds 1 says
that no difference was measured; a variant that could not run here has its line, with the reason.
Whoever adds a study adds a function to STUDIES.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from twinrun import artifacts
from twinrun.formatting import count, measure, percent, plural
from twinrun.ratios import UNSTABLE_IQR_SHARE
from twinrun.stops import RESUMES, STOPS

COLUMNS = ["study", "workload", "variant", "question", "answer", "figure", "evidence"]
ANSWERS = ("equal", "differs", "yes", "no", "not run", "not comparable")

REPEATS = "Are all learnable parameters equal, bit for bit?"
REPEATS_ENTIRELY = "Is everything equal, bit for bit: parameters, buffers, every step?"
BEGINS = "Was the operation found in which the runs part?"
COSTS = "Does it cost time, against {yardstick}?"
COSTS_ALONE = "Does it cost time?"  # where nothing was timed, and no yardstick is known
FASTER_AT = "Is it faster than {yardstick} at {size} {unit}?"
FASTER_DEVICE = "Is it faster on this device?"
SPEED = {
    "train": "Does it train faster than {yardstick}?",
    "predict": "Does it predict faster than {yardstick}?",
}
SAME_PREDICTED = "Does it predict what {yardstick} predicts, but for rounding?"
LOOP_COSTS = "Does the Trainer's loop cost time, against the bare step?"
EPOCH_FASTER = "Does it train an epoch faster than {yardstick}?"
ALL_FINISHED = "Did every trial of the sweep finish?"
WITHSTANDS = "Does it stay equal, bit for bit, when one setting is changed?"
SAME_LEARNED = "Are the parameters those of {against}, bit for bit?"

RESUMED = "Stopped anywhere, does it go on to the same bits from {by}?"
STOPPED = "Does it go on to the same bits after a stop?"

Row = dict[str, str]


def judge(
    study: str,
    *,
    comparisons: Sequence[str],
    timings: Sequence[str],
    not_run: Mapping[str, str],
    workloads: Sequence[str],
    output: str,
    locations: Sequence[str] = (),
) -> None:
    """Write the verdicts of one study.

    Args:
        study: its name.
        comparisons: JSON of its comparisons; one file may hold those of several seeds.
        timings: JSON of its timings.
        not_run: its variants that this machine cannot run, and why.
        workloads: its workloads, in the order of the config.
        output: path of the CSV.
        locations: JSON that says where its pairs part, likewise.
    """
    results = Path(output).parents[1]
    rows = STUDIES[study](
        _read(comparisons, results),
        _read(timings, results),
        [
            {"workload": workload, "variant": variant, "reason": reason}
            for workload in workloads
            for variant, reason in not_run.items()
        ],
    )
    rows += located(_read(locations, results))
    order = {workload: place for place, workload in enumerate(workloads)}
    rows.sort(key=lambda row: order[row["workload"]])
    table = pd.DataFrame([{"study": study, **row} for row in rows], columns=COLUMNS)
    artifacts.write_csv(output, table)


def collect(studies: Sequence[str], *, output: str) -> None:
    """Join the verdicts of the studies into one table."""
    tables = [pd.read_csv(path, dtype=str, keep_default_na=False) for path in studies]
    artifacts.write_csv(output, pd.concat(tables))


def summary_lines(verdicts: str) -> list[str]:
    """Give the verdicts as lines for a terminal, by question."""
    table = pd.read_csv(verdicts, dtype=str, keep_default_na=False)
    columns = ["workload", "variant", "answer"]
    widths = {column: table[column].str.len().max() for column in columns}
    lines = []
    for question, rows in table.groupby("question", sort=False):
        lines.append(question)
        for row in rows.to_dict("records"):
            cells = "  ".join(f"{row[column]:<{widths[column]}}" for column in columns)
            lines.append(f"  {cells}  {row['figure']}")
    return lines


def reproducibility(
    comparisons: Sequence[Mapping[str, Any]],
    timings: Sequence[Mapping[str, Any]],
    not_run: Sequence[Mapping[str, str]],
) -> list[Row]:
    """Say for each workload and variant whether it repeats, and what determinism costs."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for comparison in comparisons:
        groups.setdefault((comparison["workload"], comparison["variant"]), []).append(comparison)
    rows = [
        {"workload": workload, "variant": variant, **_repeats(seeds)}
        for (workload, variant), seeds in groups.items()
    ]
    rows += _missing(not_run, REPEATS)
    rows += [row for timing in timings for row in _costs(timing)]
    yardsticks = {timing["workload"]: timing["yardstick"] for timing in timings}
    for missing in not_run:
        yardstick = yardsticks.get(missing["workload"])
        question = COSTS.format(yardstick=yardstick) if yardstick else COSTS_ALONE
        rows += _missing([missing], question)
    return rows


def devices(
    contrasts: Sequence[Mapping[str, Any]],
    timings: Sequence[Mapping[str, Any]],
    not_run: Sequence[Mapping[str, str]],
) -> list[Row]:
    """Answer for each variant and size whether it is faster than the yardstick, then the contrasts.

    Args:
        contrasts: comparisons of a variant with the study's first, each with its `path`.
        timings: summaries of timings with sizes, each with its `path`.
        not_run: `workload`, `variant` and `reason` of what could not run here.
    """
    rows = []
    for timing in timings:
        unit = timing["settings"]["timing"]["size"]
        for entry in _measured_or_skipped(timing):
            size = "?" if entry["size"] is None else count(entry["size"])
            question = FASTER_AT.format(yardstick=timing["yardstick"], size=size, unit=unit)
            rows.append(_speed(timing, entry, question))
        rows += [*_loops(timing), *_agreements(timing)]
    return [*rows, *_missing(not_run, FASTER_DEVICE), *_contrasts(contrasts)]


def acceleration(
    contrasts: Sequence[Mapping[str, Any]],
    timings: Sequence[Mapping[str, Any]],
    not_run: Sequence[Mapping[str, str]],
) -> list[Row]:
    """Answer for each variant whether it trains and predicts faster, and what it changes.

    Args:
        contrasts: as for `devices`.
        timings: summaries of timings with the phases train and predict, each with its `path`.
        not_run: as for `devices`.
    """
    rows = [
        _speed(timing, entry, question.format(yardstick=timing["yardstick"]))
        for timing in timings
        for phase, question in SPEED.items()
        for entry in _measured_or_skipped(timing, phase)
    ]
    rows += [row for timing in timings for row in [*_loops(timing), *_agreements(timing)]]
    return [*rows, *_missing(not_run, FASTER_DEVICE), *_contrasts(contrasts)]


def parallel(
    comparisons: Sequence[Mapping[str, Any]],
    scalings: Sequence[Mapping[str, Any]],
    not_run: Sequence[Mapping[str, str]],
) -> list[Row]:
    """Answer for each variant whether it repeats, whether it is faster, and what it changes.

    Args:
        comparisons: of repeats, and of a variant with the study's first (with `against`), each
            with its `path`.
        scalings: what the epochs took by variant, each with its `path`.
        not_run: as for `devices`.
    """
    rows = reproducibility([found for found in comparisons if "against" not in found], [], not_run)
    for scaling in scalings:
        question = EPOCH_FASTER.format(yardstick=scaling["yardstick"])
        rows += [_speed(scaling, entry, question, "epochs") for entry in scaling["ratios"]]
    return [*rows, *_contrasts([found for found in comparisons if "against" in found])]


def sweep(
    rankings: Sequence[Mapping[str, Any]],
    timings: Sequence[Mapping[str, Any]],
    not_run: Sequence[Mapping[str, str]],
) -> list[Row]:
    """Say of each sweep whether its trials finished, and which was best.

    Args:
        rankings: of the trials of a workload, each with its `path`.
        timings: none.
        not_run: as for `devices`.
    """
    rows = [
        {
            "workload": ranking["workload"],
            "variant": "",
            "question": ALL_FINISHED,
            "answer": "yes" if ranking["finished"] == len(ranking["trials"]) else "no",
            "figure": _best_trial(ranking),
            "evidence": ranking["path"],
        }
        for ranking in rankings
    ]
    return [*rows, *_missing(not_run, ALL_FINISHED)]


def _best_trial(ranking: Mapping[str, Any]) -> str:
    finished = f"{ranking['finished']} of {plural(len(ranking['trials']), 'trial')} finished"
    best = ranking["trials"][0]
    if best["rank"] is None:
        return finished
    metric = f"{ranking['best']} {ranking['metric']}"
    return f"{finished}; {metric}: {measure(best['value'])} with {best['label']}"


def matrix(
    matrices: Sequence[Mapping[str, Any]],
    timings: Sequence[Mapping[str, Any]],
    not_run: Sequence[Mapping[str, str]],
) -> list[Row]:
    """Say for each workload whether the baseline repeats, and which changes leave it as it was.

    Args:
        matrices: of `twinrun.matrix`, each with its `path`.
        timings: none.
        not_run: none; what a machine cannot run stands in the matrix.
    """
    return [
        {
            "workload": found["workload"],
            "variant": found["baseline"],
            "question": question,
            "answer": answer,
            "figure": figure,
            "evidence": found["path"],
        }
        for found in matrices
        for question, answer, figure in [_baseline(found), _withstands(found)]
    ]


def _baseline(found: Mapping[str, Any]) -> tuple[str, str, str]:
    if found["answer"] == "equal":
        return REPEATS, "equal", f"2 runs, {plural(found['steps'], 'step')}"
    return REPEATS, found["answer"], found["reason"]


def _withstands(found: Mapping[str, Any]) -> tuple[str, str, str]:
    """Count the changes that leave every bit as it was, and name the others."""
    changed = [cell for cell in found["cells"] if cell["cell"] not in ("repeat", "seed")]
    groups = {
        answer: [cell["label"] for cell in changed if cell["answer"] == answer]
        for answer in ("equal", "differs", "not comparable", "not run")
    }
    compared = len(groups["equal"]) + len(groups["differs"])
    if not compared:
        answer = "not comparable" if groups["not comparable"] else "not run"
        return WITHSTANDS, answer, found["reason"] or "no change could be compared"
    parts = [f"{count(len(groups['equal']))} of {plural(compared, 'change')} leave it equal"]
    parts += [f"{name}: {', '.join(labels)}" for name, labels in groups.items() if labels][1:]
    return WITHSTANDS, "no" if groups["differs"] else "yes", "; ".join(parts)


def resume(
    diagnoses: Sequence[Mapping[str, Any]],
    timings: Sequence[Mapping[str, Any]],
    not_run: Sequence[Mapping[str, str]],
) -> list[Row]:
    """Say for each way to resume after how many kinds of stop a training ends in the same bits.

    Args:
        diagnoses: what `diagnosis` found, each with its `path`.
        timings: none.
        not_run: as for `devices`.
    """
    rows = [
        {
            "workload": found["workload"],
            "variant": found["variant"],
            "question": RESUMED.format(by=by),
            "evidence": found["path"],
            **_resumed(stops),
        }
        for found in diagnoses
        for way, by in RESUMES.items()
        if (stops := [stop for stop in found["stops"] if _is_answered(stop, way)])
    ]
    return [*rows, *_missing(not_run, STOPPED)]


def _is_answered(stop: Mapping[str, Any], way: str) -> bool:
    """Leave out the other way to resume, and points that the training does not have."""
    return stop["resume"] == way and stop["answer"] != "not run"


def _resumed(stops: Sequence[Mapping[str, Any]]) -> Row:
    """Count the stops that lose nothing, and name the others."""
    places = {
        answer: [STOPS[stop["stop"]] for stop in stops if stop["answer"] == answer]
        for answer in ("equal", "differs", "not comparable")
    }
    equal = len(places.pop("equal"))
    loses = "loses" if len(stops) == 1 else "lose"
    parts = [f"{equal} of {plural(len(stops), 'kind')} of stop {loses} nothing"]
    parts += [f"{answer}: {', '.join(named)}" for answer, named in places.items() if named]
    answer = next((answer for answer, named in places.items() if named), "equal")
    return {"answer": answer, "figure": "; ".join(parts)}


def _measured_or_skipped(
    timing: Mapping[str, Any], phase: str = "train"
) -> list[Mapping[str, Any]]:
    ratios = [ratio for ratio in timing["ratios"] if ratio["phase"] == phase]
    return [*ratios, *timing["skipped"]]


def _speed(
    timing: Mapping[str, Any], entry: Mapping[str, Any], question: str, noun: str = "rounds"
) -> Row:
    """Give the row of a ratio, or of a variant that was skipped."""
    row = {"workload": timing["workload"], "variant": entry["variant"], "question": question}
    if "reason" in entry:
        answer, figure = "not run", entry["reason"]
    else:
        answer = "yes" if entry["high"] < 1 else "no"
        doubt = _doubt(timing["medians"], entry, timing["yardstick"], noun)
        figure = speed_up(entry) + doubt
    return row | {"answer": answer, "figure": figure, "evidence": timing["path"]}


def speed_up(ratio: Mapping[str, Any]) -> str:
    """Write a ratio of seconds as a speed-up, with its interval and what it means.

    >>> speed_up({"time_ratio": 0.5, "low": 0.4, "high": 0.625})
    '2.00 times as fast (95% interval 1.60 to 2.50)'
    """
    low, high = 1 / ratio["high"], 1 / ratio["low"]
    meaning = ": no difference measured" if low <= 1 <= high else ""
    interval = f"95% interval {measure(low)} to {measure(high)}"
    return f"{measure(1 / ratio['time_ratio'])} times as fast ({interval}){meaning}"


def _loops(timing: Mapping[str, Any]) -> list[Row]:
    """Say of each variant what Lightning's loop adds to its step, at the largest size."""
    largest = {ratio["variant"]: ratio for ratio in timing["trainer"]}
    return [
        {
            "workload": timing["workload"],
            "variant": variant,
            "question": LOOP_COSTS,
            "answer": "yes" if ratio["low"] > 1 else "no",
            "figure": time_ratio(ratio),
            "evidence": timing["path"],
        }
        for variant, ratio in largest.items()
    ]


def _agreements(timing: Mapping[str, Any]) -> list[Row]:
    """Say of each variant whether it predicts what the yardstick does, at every size."""
    worst: dict[str, Mapping[str, Any]] = {}
    for row in timing["agreement"]:
        before = worst.setdefault(row["variant"], row)
        if not row["distance"] <= before["distance"]:  # so that NaN is the worst
            worst[row["variant"]] = row
    return [
        {
            "workload": timing["workload"],
            "variant": variant,
            "question": SAME_PREDICTED.format(yardstick=timing["yardstick"]),
            "answer": "yes" if row["distance"] <= row["tolerance"] else "no",
            "figure": f"relative L2 distance {measure(row['distance'])} on the first batch, "
            f"tolerance {measure(row['tolerance'])}",
            "evidence": timing["path"],
        }
        for variant, row in worst.items()
    ]


def located(locations: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Say for each workload and variant that differs where that begins; of its seeds, the first.

    A seed in which an operation was found goes before one in which none was.
    """
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for location in locations:
        if location["answer"] != "equal":
            groups.setdefault((location["workload"], location["variant"]), []).append(location)
    shown = [
        min(group, key=lambda location: location["answer"] != "located")
        for group in groups.values()
    ]
    return [
        {
            "workload": location["workload"],
            "variant": location["variant"],
            "question": BEGINS,
            "answer": "yes" if location["answer"] == "located" else "no",
            "figure": location["sentence"],
            "evidence": location["path"],
        }
        for location in shown
    ]


def _missing(not_run: Sequence[Mapping[str, str]], question: str) -> list[Row]:
    return [
        {
            "workload": missing["workload"],
            "variant": missing["variant"],
            "question": question,
            "answer": "not run",
            "figure": missing["reason"],
            "evidence": "",
        }
        for missing in not_run
    ]


def _contrasts(contrasts: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Say of each variant whether it learned what the first one did, over the seeds."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for contrast in contrasts:
        groups.setdefault((contrast["workload"], contrast["variant"]), []).append(contrast)
    return [
        {
            "workload": workload,
            "variant": variant,
            **_repeats(seeds),
            "question": SAME_LEARNED.format(against=seeds[0]["against"]),
        }
        for (workload, variant), seeds in groups.items()
    ]


def _repeats(seeds: Sequence[Mapping[str, Any]]) -> Row:
    """Sum up the comparisons of one workload and variant over its seeds."""
    refused = [seed for seed in seeds if seed["answer"] == "not comparable"]
    differing = [seed for seed in seeds if seed["answer"] == "differs"]
    shown, question = seeds[0], REPEATS
    if differing:
        shown = max(differing, key=_extent)
        if not shown["parameters"]["elements_differing"]:
            question = REPEATS_ENTIRELY
        answer, figure = "differs", _difference(shown)
    elif refused:
        shown = refused[0]
        answer, figure = "not comparable", shown["reason"]
    else:
        answer, figure = "equal", _share(shown["parameters"], "parameter")
    if len(seeds) > 1:
        parts = [(len(differing), "differ"), (len(refused), "not comparable")]
        parts = [f"{number} of {len(seeds)} seeds {what}" for number, what in parts if number]
        figure = f"seed {shown['seed']}: {figure}" if parts else f"{len(seeds)} seeds: {figure}"
        figure = "; ".join([*parts, figure])
    if answer != "not comparable":
        figure += f" ({plural(shown['repeats'], 'run')}, {plural(shown['steps'], 'step')})"
    return {"question": question, "answer": answer, "figure": figure, "evidence": shown["path"]}


def _extent(comparison: Mapping[str, Any]) -> tuple[float, int]:
    return comparison["relative_l2"], comparison["parameters"]["elements_differing"]


def _difference(comparison: Mapping[str, Any]) -> str:
    """Say how many elements differ, how far, and where that began."""
    parameters, buffers = comparison["parameters"], comparison["buffers"]
    parts = [_share(parameters, "parameter")]
    if parameters["elements_differing"]:
        ulp = comparison["max_ulp"]
        steps = count(ulp) if ulp < 1_000_000 else measure(ulp)
        parts[0] += f" by up to {measure(comparison['max_abs'])} ({steps} ULP)"
    elif buffers["elements_differing"]:
        parts.append(_share(buffers, "buffer element"))
    return ", ".join([*parts, _beginning(comparison["first_difference"])])


def _share(counts: Mapping[str, int], noun: str) -> str:
    number, whole = counts["elements_differing"], plural(counts["elements"], noun)
    return f"{count(number)} of {whole} differ{'s' if number == 1 else ''}"


def _beginning(first: Mapping[str, Any] | None) -> str:
    """Say where two runs parted.

    >>> _beginning({"step": 3, "quantity": "gradients", "tensor": "user_factors"})
    'first at step 3 in the gradients of user_factors'
    """
    if first is None:
        return "at no step, so after the last one"
    step, quantity = count(first["step"]), first["quantity"]
    if quantity == "number of steps":
        return f"first at step {step}, which not every run has"
    of_tensor = f" of {first['tensor']}" if first["tensor"] else ""
    if quantity == "initial parameters":
        return f"first before training in the {quantity}{of_tensor}"
    return f"first at step {step} in the {quantity}{of_tensor}"


def _costs(timing: Mapping[str, Any]) -> list[Row]:
    """Say of each variant but the yardstick whether its training step takes longer."""
    rows = [
        {
            "workload": timing["workload"],
            "variant": ratio["variant"],
            "question": COSTS.format(yardstick=timing["yardstick"]),
            "answer": "yes" if ratio["low"] > 1 else "no",
            "figure": time_ratio(ratio) + _doubt(timing["medians"], ratio, timing["yardstick"]),
            "evidence": timing["path"],
        }
        for ratio in timing["ratios"]
        if ratio["phase"] == "train" and ratio["variant"] != timing["yardstick"]
    ]
    return rows + [
        {
            "workload": timing["workload"],
            "variant": skipped["variant"],
            "question": COSTS.format(yardstick=timing["yardstick"]),
            "answer": "not run",
            "figure": skipped["reason"],
            "evidence": timing["path"],
        }
        for skipped in timing["skipped"]
    ]


def time_ratio(ratio: Mapping[str, Any]) -> str:
    """Write a ratio of seconds with its interval and what it means.

    >>> time_ratio({"time_ratio": 1.02, "low": 0.98, "high": 1.07})
    '1.02 times the time a step (95% interval 0.980 to 1.07): no difference measured'
    """
    interval = f"95% interval {measure(ratio['low'])} to {measure(ratio['high'])}"
    meaning = "no difference measured"
    if ratio["low"] > 1 or ratio["high"] < 1:
        meaning = "slower" if ratio["low"] > 1 else "faster"
    return f"{measure(ratio['time_ratio'])} times the time a step ({interval}): {meaning}"


def _doubt(
    medians: Sequence[Mapping[str, Any]],
    ratio: Mapping[str, Any],
    yardstick: str,
    noun: str = "rounds",
) -> str:
    """Say if one of the two measurements behind a ratio is unstable."""
    unstable = [
        median["variant"]
        for median in medians
        if median["unstable"]
        and median["variant"] in (ratio["variant"], yardstick)
        and (median["phase"], median["size"]) == (ratio["phase"], ratio["size"])
    ]
    if not unstable:
        return ""
    share = percent(UNSTABLE_IQR_SHARE)
    return f"; unstable: {noun} of {' and '.join(unstable)} spread by more than {share}"


STUDIES: Mapping[str, Callable[..., list[Row]]] = {
    "reproducibility": reproducibility,
    "devices": devices,
    "acceleration": acceleration,
    "parallel": parallel,
    "sweep": sweep,
    "matrix": matrix,
    "resume": resume,
}


def _read(paths: Sequence[str], results: Path) -> list[dict[str, Any]]:
    return [
        {**entry, "path": Path(path).relative_to(results).as_posix()}
        for path in paths
        for entry in artifacts.read_entries(path)
    ]
