"""The verdict on whole trainings: was one faster than the baseline's, as they ran?

A step that is faster makes no training faster that spends more on compiling. And two trainings that
ran once each, one after the other or side by side, are no timing: "yes" and "no" are kept for what
neither waiting nor the noise of a machine explains.
"""

from collections.abc import Mapping, Sequence
from statistics import median

from twinrun.formatting import measure, percent, plural, seconds
from twinrun.run_files import left_network
from twinrun.run_records import FailedRun, RunManifest
from twinrun.timing.ratio_words import effect_of
from twinrun.timing.whole_trainings import (
    WholeTrainings,
    is_tracing_known,
    is_whole,
    noise,
    time_ratio,
    whole_trainings,
)
from twinrun.verdicts.evidence import Evidence
from twinrun.verdicts.rows import Answer, Verdict

WHOLE_FASTER = "Was the whole training faster than {baseline}'s, as both ran?"

MUCH = 0.2  # of a training: above, what is no training step is said

Ended = Evidence[RunManifest | FailedRun]
Group = dict[str, list[Ended]]


def whole_speeds(runs: Sequence[Ended]) -> list[Verdict]:
    """Say of each variant but the first whether its whole training was faster.

    Args:
        runs: of a study, those of the baseline first.
    """
    workloads: dict[str, Group] = {}
    for run in runs:
        of_variants = workloads.setdefault(run.found["workload"], {})
        of_variants.setdefault(run.found["variant"], []).append(run)
    return [
        _verdict(workload, variant, baseline, of_variants)
        for workload, of_variants in workloads.items()
        for baseline, *others in [list(of_variants)]
        for variant in others
    ]


def of_pairs(
    own: Sequence[RunManifest | FailedRun], base: Sequence[RunManifest | FailedRun]
) -> tuple[list[RunManifest], list[RunManifest]]:
    """Return the whole trainings of both sides that have one of the same seed on the other."""
    sides = [
        {(run["seed"], run["repeat"]): run for run in side if left_network(run) and is_whole(run)}
        for side in (own, base)
    ]
    both = [key for key in sides[0] if key in sides[1]]
    return [sides[0][key] for key in both], [sides[1][key] for key in both]


def _verdict(
    workload: str, variant: str, baseline: str, runs: Mapping[str, list[Ended]]
) -> Verdict:
    own, base = ([run.found for run in runs[name]] for name in (variant, baseline))
    said, measured = _answer(variant, own, baseline, base)
    return {
        "key": "whole_speed",
        "workload": workload,
        "variant": variant,
        "question": WHOLE_FASTER.format(baseline=baseline),
        "answer": said,
        "measured": measured,
        "evidence": runs[variant][0].path,
    }


def _answer(
    variant: str,
    own: Sequence[RunManifest | FailedRun],
    baseline: str,
    base: Sequence[RunManifest | FailedRun],
) -> tuple[Answer, str]:
    for name, side in ((variant, own), (baseline, base)):
        if not any(left_network(run) and is_whole(run) for run in side):
            answer: Answer = "not run" if name == variant else "not comparable"
            return answer, f"{name} has no whole training: {_why_not_whole(side[0])}"
    of_own, of_base = of_pairs(own, base)
    if not of_own:
        return "not comparable", "no seed has a whole training of both"
    if why := _no_pair(of_own, of_base):
        return "not comparable", why
    known = is_tracing_known([*of_own, *of_base])
    mine = whole_trainings(variant, of_own, leaves_out_tracing=known)
    other = whole_trainings(baseline, of_base, leaves_out_tracing=known)
    said, because = judged(mine, other)
    return said, f"{in_words(mine, other)}{because}"


def _why_not_whole(run: RunManifest | FailedRun) -> str:
    if not left_network(run) or run["ended"] != "finished":
        return run["ended"]
    return "it was resumed, and its seconds are those of its last process alone"


def _no_pair(own: Sequence[RunManifest], base: Sequence[RunManifest]) -> str | None:
    """Say why the seconds of two sides are not those of the same work on the same machine."""
    for mine, other in zip(own, base, strict=True):
        of_seed, (own_samples, others) = f"of seed {mine['seed']}", map(_samples, (mine, other))
        if mine["steps"] != other["steps"]:
            return f"{plural(mine['steps'], 'step')} {of_seed}, and {other['steps']:,}"
        if own_samples and others and own_samples != others:
            return f"{plural(own_samples, 'sample')} {of_seed} in as many steps, and {others:,}"
        hosts = [run["environment"]["context"]["host"] for run in (mine, other)]
        if hosts[0] != hosts[1]:
            return f"trained on two machines, {hosts[0]} and {hosts[1]}"
    return None


def _samples(run: RunManifest) -> int | None:
    """Return how many samples a training was given, each as often as it was; None if unknown."""
    known = [samples for samples in run["seconds"]["samples"] if samples is not None]
    return sum(known) if len(known) == len(run["seconds"]["samples"]) else None


def judged(own: WholeTrainings, base: WholeTrainings) -> tuple[Answer, str]:
    """Answer whether trainings were faster, and say what stands against an answer."""
    both, effect = (own, base), effect_of(time_ratio(own, base))
    has_waited, is_single = [of.has_waited for of in both], len(own.seconds) == 1
    if None in has_waited:
        doubt = "nobody knows here how long they had to wait for others"
    elif effect == "slower":
        return "no", ""  # whatever they waited
    elif any(has_waited) and is_single:
        doubt = "a training a side that had to wait for others is no measurement"
    elif effect in ("faster", "no difference that matters"):
        return ("yes" if effect == "faster" else "no"), ""
    else:
        beside = "" if all(of.is_alone for of in both) else ", beside other jobs"
        doubt = f"two such trainings may differ by {percent(noise(own, base))}{beside}"
    return "undecided", f"; undecided, since {doubt}"


def in_words(own: WholeTrainings, base: WholeTrainings) -> str:
    """Say what two trainings took, what is in it, and whether they were alone."""
    times, several = measure(time_ratio(base, own)["time_ratio"]), len(own.seconds)
    of = "a training each" if several == 1 else f"medians of {several} each"
    without, is_known = "", None not in (own.tracing, base.tracing)
    if is_known and (own.tracing or base.tracing):
        without, of = " without fingerprints", f"{of}, with them {_both(own.fit, base.fit)}"
    rests_on = seconds(median(own.seconds)), seconds(median(base.seconds))
    parts = [f"{times} times as fast{without}: {rests_on[0]}, {base.variant} {rests_on[1]} ({of})"]
    if own.compiling or base.compiling:
        of_it = _both(own.compiling, base.compiling) if base.compiling else seconds(own.compiling)
        parts.append(f"compiling {of_it} of it")
    if base.beside_steps > MUCH * base.fit:  # which no faster step makes shorter
        beside = _both(own.beside_steps, base.beside_steps)
        parts.append(f"validation and the ends of epochs {beside} of it")
    if not is_known:
        parts.append("fingerprints in it")
    parts.append(_company(own, base))
    if own.proof is not None:
        parts.append(
            f"the proof of its steps took {seconds(own.proof)} apart, made once and remembered"
        )
    return "; ".join(parts)


def _both(own: float, base: float) -> str:
    return f"{seconds(own)} and {seconds(base)}"


def _company(own: WholeTrainings, base: WholeTrainings) -> str:
    """Say whether trainings had the machine for themselves."""
    waited = [sum(w for w in of.waited if w is not None) / len(of.waited) for of in (own, base)]
    of_cores = "" if own.cores is None else f" of {own.cores}"
    if all(of.is_alone for of in (own, base)):
        said = "alone on the machine"
    else:
        busy = f"{measure(own.others, 2)} and {measure(base.others, 2)}"
        said = f"beside other jobs, which kept {busy}{of_cores} cores busy"
    if None in (own.has_waited, base.has_waited):
        return said
    if any((own.has_waited, base.has_waited)):
        return f"{said}; threads waited {_both(*waited)} for a core"
    return said
