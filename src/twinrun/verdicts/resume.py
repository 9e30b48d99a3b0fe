"""Verdicts on resuming: does a training that was stopped give what one gives that was not?"""

from collections.abc import Iterator, Mapping, Sequence

from twinrun.comparison.conditions import listed, made_anew
from twinrun.comparison.study_records import ResumeTable, StoppedRun
from twinrun.config.resume_variants import RESUMES, STOPS
from twinrun.formatting import plural, verb
from twinrun.verdicts.evidence import Evidence, VariantNotRun
from twinrun.verdicts.rows import Answer, Key, Verdict, not_run

KEYS: Mapping[str, Key] = {"lightning": "resumes_lightning", "twinrun": "resumes_twinrun"}
RESUMES_FROM = "Does resuming from {checkpoint} reproduce the uninterrupted run, bit for bit?"


def resumes(
    tables: Sequence[Evidence[ResumeTable]], missing: Sequence[VariantNotRun]
) -> list[Verdict]:
    """Say for each type of checkpoint after which stops a training gives the same in all of it."""
    rows: list[Verdict] = []
    for checkpoint, name in RESUMES.items():
        key, question = KEYS[checkpoint], RESUMES_FROM.format(checkpoint=name)
        for table in tables:
            stops = [stop for stop in table.found["stops"] if stop["resume"] == checkpoint]
            if not stops:
                continue
            answer, measured = _resumed(stops)
            is_resumed = "whole_resumed_at" in table.found and answer != "not run"
            if is_resumed and (at := table.found["whole_resumed_at"]):
                measured += (
                    f"; but the run that they are compared with was itself resumed after "
                    f"{listed('step', at)}, so that what both lose alike is not seen"
                )
            named = [stop["made_anew"] for stop in stops if "made_anew" in stop]
            if names := sorted({name for each in named for name in each}):
                measured += f"; {made_anew(names)}"
            rows.append(
                {
                    "key": key,
                    "workload": table.found["workload"],
                    "variant": table.found["variant"],
                    "question": question,
                    "answer": answer,
                    "measured": measured,
                    "evidence": table.path,
                }
            )
        rows += not_run(missing, key, question)
    return rows


def _resumed(stops: Sequence[StoppedRun]) -> tuple[Answer, str]:
    """Count the stops that lose nothing, and name the others.

    A stop that never happened, since the training has no such point or its checkpoint was refused,
    answers nothing: it is named with the reason, and where there is no other one, nothing was run.
    Where a training failed, the others do not speak for it.
    """
    stops_of = {
        answer: [_named(stop) for stop in stops if stop["answer"] == answer]
        for answer in ("equal", "differs", "not comparable")
    }
    without = [stop for stop in stops if stop["answer"] == "not run"]
    # Of the kinds of stop that happened: one that the training has not is no loss.
    number = len(stops) - len(without)
    if not number:
        # Each reason once; dict.fromkeys keeps their order.
        return "not run", "; ".join(dict.fromkeys(stop["lost"] for stop in stops))
    # As with seeds: one stop after which it differs is enough, one refused is not "equal".
    answer: Answer = "equal"
    if stops_of["differs"]:
        answer = "differs"
    elif stops_of["not comparable"]:
        answer = "not comparable"
    elif any("failed" in stop for stop in without):
        answer = "not run"
    equal = len(stops_of["equal"])
    lose = verb("lose", equal, number)
    clauses = [f"{equal} of {plural(number, 'kind')} of stop {lose} nothing"]
    for name in ("differs", "not comparable"):
        clauses += [f"{name}: {', '.join(stops_of[name])}"] if stops_of[name] else []
    clauses += [f"not run: {', '.join(_with_reasons(without))}"] if without else []
    return answer, "; ".join(clauses)


def _with_reasons(stops: Sequence[StoppedRun]) -> Iterator[str]:
    """Name stops that never happened, those of one reason together."""
    named: dict[str, list[str]] = {}
    for stop in stops:
        named.setdefault(stop["lost"], []).append(_named(stop))
    return (f"{' and '.join(of)} ({why})" for why, of in named.items())


def _named(stop: StoppedRun) -> str:
    """Name a stop, with what alone was lost where the weights are the same."""
    return STOPS[stop["stop"]] + (f" (in {', '.join(stop['outputs'])})" if stop["outputs"] else "")
