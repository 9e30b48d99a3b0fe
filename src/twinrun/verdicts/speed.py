"""Verdicts on time: what is faster, what does determinism cost, and Lightning's Trainer?

An answer rests on the interval of a ratio and on how steady the clock was: see `steadiness`.
"""

from collections.abc import Iterator, Sequence

from twinrun.config.timed_variants import timed_without
from twinrun.formatting import count, measure, percent, plural, seconds
from twinrun.timing import break_even
from twinrun.timing.epoch_times import EpochMedian, EpochRatio, Scaling
from twinrun.timing.ratio_words import MATTERS, Effect, effect_of, speed_up, time_ratio
from twinrun.timing.steadiness import (
    Steadiness,
    clear_effect,
    median_of,
    medians_behind,
    spread,
)
from twinrun.timing.summary import Interval, Median, Overhead, Ratio, TimingSummary, reason_in
from twinrun.timing.trained import Trained
from twinrun.verdicts.evidence import Evidence
from twinrun.verdicts.rows import Answer, Key, Verdict

COSTS = "Does it cost time, compared with {baseline}?"
TRAINS_FASTER = "Does it train faster than {baseline}?"
TRAINS_FASTER_AT = "Does it train faster than {baseline} at {size} {unit}?"
PREDICTS_FASTER = "Does it predict faster than {baseline}?"
EPOCH_FASTER = "Does it train an epoch faster than {baseline}?"
TRAINER_COSTS = "Does Lightning's Trainer cost time, compared with the bare training step?"

Timing = Evidence[TimingSummary]
Answered = tuple[str, int | None, tuple[Answer, str]]  # variant, size, what is said of it


def costs(timing: Timing) -> list[Verdict]:
    """Say of each variant but the baseline whether its training step takes longer."""
    question = COSTS.format(baseline=timing.found["baseline"])
    rows = []
    for ratio in _of_phase(timing, "train"):
        behind = medians_behind(timing.found, ratio)
        measured = time_ratio(ratio) + _doubts(ratio, behind) + _left_out(timing, ratio)
        answered = answer(ratio, behind, yes="slower"), measured
        rows.append(verdict_of(timing, "cost", ratio["variant"], question, *answered))
    return rows + [
        verdict_of(timing, "cost", variant, question, *answered)
        for variant, _, answered in _without_ratio(timing, "train")
    ]


def training_speeds(timing: Timing, trained: Trained | None = None) -> list[Verdict]:
    """Say of each variant and size whether its training step is faster than the baseline's.

    Args:
        timing: the timing.
        trained: what whole trainings of the workload show: see `break_even`.
    """
    rows = []
    for variant, size, answered in [
        *_speeds(timing, "train", trained),
        *_without_ratio(timing, "train"),
    ]:
        question = TRAINS_FASTER.format(baseline=timing.found["baseline"])
        if size is not None:
            at = {"size": count(size), "unit": timing.found["settings"]["timing"].size}
            question = TRAINS_FASTER_AT.format(baseline=timing.found["baseline"], **at)
        rows.append(verdict_of(timing, "speed", variant, question, *answered))
    return rows


def prediction_speeds(timing: Timing) -> list[Verdict]:
    """Say of each variant whether its prediction is faster than the baseline's."""
    question = PREDICTS_FASTER.format(baseline=timing.found["baseline"])
    return [
        verdict_of(timing, "prediction_speed", variant, question, *answered)
        for variant, _, answered in [
            *_speeds(timing, "predict"),
            *_without_ratio(timing, "predict"),
        ]
    ]


def epoch_speeds(scaling: Evidence[Scaling]) -> list[Verdict]:
    """Say of each variant whether its epochs are faster than the baseline's."""
    baseline = scaling.found["baseline"]
    # By variant alone: epochs are measured at one size only.
    medians = {median["variant"]: median for median in scaling.found["medians"]}
    question = EPOCH_FASTER.format(baseline=baseline)
    rows = [
        verdict_of(scaling, "speed", skipped["variant"], question, "not run", skipped["reason"])
        for skipped in scaling.found["skipped"]
    ]
    compared = {baseline, *(ratio["variant"] for ratio in scaling.found["ratios"])}
    for variant in [name for name in medians if name not in compared]:
        why = "its mini-batches are others, and of how many samples nobody knows"
        why = why if baseline in medians else f"{baseline} was not measured"
        why += f"; an epoch took {seconds(medians[variant]['seconds'])}"
        rows.append(verdict_of(scaling, "speed", variant, question, "not comparable", why))
    for ratio in scaling.found["ratios"]:
        # The epochs of two runs are no pairs: the ratio is that of the medians, nothing to explain.
        behind = [medians[ratio["variant"]], medians[baseline]]
        measured = speed_up(ratio) + instability(ratio, behind, noun="epochs")
        measured += per_unit(ratio, *behind)
        answered = answer(ratio, behind, yes="faster"), measured
        rows.append(verdict_of(scaling, "speed", ratio["variant"], question, *answered))
    return rows


def per_unit(ratio: EpochRatio, own: EpochMedian, base: EpochMedian) -> str:
    """Say that epochs are of other lengths, and what is compared instead."""
    unit = ratio["per"]
    if own[unit] == base[unit]:
        return ""
    one, other = (f"{of[unit]:,.10g}" for of in (own, base))
    return (
        f"; per {unit[:-1]}, since an epoch of {own['variant']} has {one} {unit}, "
        f"one of {base['variant']} {other}"
    )


def trainer_costs(timing: Timing) -> list[Verdict]:
    """Say of each variant what Lightning's Trainer adds to its bare step, at the largest size."""
    largest: dict[str, Overhead] = {}
    # `or 0`, since None is no number to sort by. The last one of a variant stays: the largest.
    for overhead in sorted(timing.found["trainer"], key=lambda overhead: overhead["size"] or 0):
        largest[overhead["variant"]] = overhead
    rows = []
    for variant, ratio in largest.items():
        behind = medians_of_overhead(timing.found, ratio)
        answered = answer(ratio, behind, yes="slower"), time_ratio(ratio) + _doubts(ratio, behind)
        rows.append(verdict_of(timing, "trainer_cost", variant, TRAINER_COSTS, *answered))
    for skipped in timing.found["skipped"]:
        if skipped["phase"] == "trainer":
            answered = "not run", skipped["reason"]
            name = skipped["variant"]
            rows.append(verdict_of(timing, "trainer_cost", name, TRAINER_COSTS, *answered))
    return rows


def _of_phase(timing: Timing, phase: str) -> list[Ratio]:
    return [ratio for ratio in timing.found["ratios"] if ratio["phase"] == phase]


def _speeds(timing: Timing, phase: str, trained: Trained | None = None) -> Iterator[Answered]:
    """Answer whether variants are faster than the baseline in a phase."""
    for ratio in _of_phase(timing, phase):
        behind = medians_behind(timing.found, ratio)
        measured = speed_up(ratio) + _doubts(ratio, behind) + _left_out(timing, ratio)
        if phase == "train":
            of = break_even.break_even(timing.found, ratio["variant"], ratio["size"], trained)
            measured += f"; {said}" if (said := break_even.words(of)) else ""
        answered = answer(ratio, behind, yes="faster"), measured
        yield ratio["variant"], ratio["size"], answered


def _without_ratio(timing: Timing, phase: str) -> Iterator[Answered]:
    """Say what has no ratio: variants that could not be measured, and those without a baseline."""
    baseline = timing.found["baseline"]
    for skipped in timing.found["skipped"]:
        # Skipped as a whole it has no ratio in any phase.
        if skipped["phase"] in (None, phase):
            yield skipped["variant"], skipped["size"], ("not run", reason_in(skipped, phase))
    medians = [median for median in timing.found["medians"] if median["phase"] == phase]
    with_baseline = {median["size"] for median in medians if median["variant"] == baseline}
    for median in medians:
        if median["size"] not in with_baseline:
            took = f"a step took {seconds(median['seconds_per_step'])}"
            why = f"{baseline} was not measured; {took}"
            yield median["variant"], median["size"], ("not comparable", why)


def medians_of_overhead(timing: TimingSummary, overhead: Overhead) -> list[Median]:
    """Return the medians behind what the Trainer adds: of its step, then of the bare one."""
    return [
        median_of(timing, overhead["variant"], phase, overhead["size"])
        for phase in ("trainer", "train")
    ]


def answer(ratio: Interval, medians: Sequence[Steadiness], *, yes: Effect) -> Answer:
    """Answer whether a ratio shows an effect, in spite of the spread of what it rests on.

    Args:
        ratio: of two measurements.
        medians: of the two.
        yes: the effect that the question asks for, `faster` or `slower`.
    """
    # Only the answer rests on the widened interval; what is printed is the measured one.
    effect = clear_effect(ratio, medians)
    # An interval that holds 1 and much else says neither yes nor no.
    if effect in ("no difference measured", "too few measurements"):
        return "undecided"
    return "yes" if effect == yes else "no"


def _left_out(timing: Timing, ratio: Ratio) -> str:
    """Say which settings of a variant are no part of what was timed."""
    found = timing.found
    said = timed_without(ratio["variant"], found["baseline"], found["settings"]["variants"])
    return f"; {said}" if said else ""


def _doubts(ratio: Interval, medians: Sequence[Median]) -> str:
    """Say what a reader may stumble over: medians that say another thing, and unstable rounds."""
    return _disagreement(ratio, medians) + unsteadiness(ratio, medians)


def _disagreement(ratio: Interval, medians: Sequence[Median]) -> str:
    """Say why a ratio of paired rounds is not the one that its medians give.

    Where the machine was slow for a while, the medians of two variants may come from other rounds;
    the ratio is taken within each round, where both were slowed alike.
    """
    of_variant, of_baseline = (median["seconds_per_step"] for median in medians)
    quotient, low, high = of_variant / of_baseline, ratio["low"], ratio["high"]
    if low is None or high is None or low <= quotient <= high:
        return ""
    return (
        f"; the two medians alone give {measure(quotient)}: the ratio is taken within each round, "
        f"where what slows the machine slows both"
    )


def unsteadiness(ratio: Interval, medians: Sequence[Median]) -> str:
    """Say which rounds behind a ratio are unstable, uneven, or had something compiled in them."""
    text = instability(ratio, medians, noun="rounds") + _unevenness(ratio)
    for median in medians:
        if "compiled" in median:
            of = median["compiled"]
            why = f" (in torch's words: {of['reason']})" if of["reason"] else ""
            text += (
                f"; torch compiled {plural(of['graphs'], 'graph')} inside the clock of "
                f"{median['variant']}{why}, so its rounds are no time of steps alone"
            )
    return text


def _unevenness(ratio: Interval) -> str:
    """Say what uneven mini-batches leave open, or that the ratio is not that of a median round."""
    if "uneven" not in ratio:
        return ""
    found = ratio["uneven"]
    since = f"; its mini-batches are uneven (the largest has {measure(found['times'])} times the "
    since += "elements of the middle one)"
    if found["unmeasured"]:
        missed = plural(found["unmeasured"], "larger one")
        return f"{since}, and {missed} than all that were measured may take much of an epoch"
    if max(apart := found["of_rounds"] / ratio["time_ratio"], 1 / apart) <= 1 + MATTERS:
        return ""
    return (
        f"{since}: the ratio is that of all rounds together, and its interval holds that of the "
        f"median round, {measure(found['of_rounds'])} times the time"
    )


def instability(ratio: Interval, medians: Sequence[Steadiness], *, noun: str) -> str:
    """Say which measurements behind a ratio are unstable, and whether that leaves it in doubt."""
    # Once each: the two medians of the Trainer's cost are of one variant.
    names = dict.fromkeys(median["variant"] for median in medians if median["unstable"])
    if not names:
        return ""
    weight = ""
    if effect_of(ratio) in ("faster", "slower"):
        is_clear = clear_effect(ratio, medians) in ("faster", "slower")
        weight = ", less than the difference" if is_clear else ", as much as the difference"
    share = percent(spread(medians))
    return f"; unstable: {noun} of {' and '.join(names)} spread by up to {share}{weight}"


def verdict_of(
    source: Timing | Evidence[Scaling],
    key: Key,
    variant: str,
    question: str,
    answer: Answer,
    measured: str,
) -> Verdict:
    """Make a verdict whose evidence is a timing or the epochs of runs."""
    return {
        "key": key,
        "workload": source.found["workload"],
        "variant": variant,
        "question": question,
        "answer": answer,
        "measured": measured,
        "evidence": source.path,
    }
