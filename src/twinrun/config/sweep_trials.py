"""The trials of a sweep: hyperparameters crossed, each trial a workload of its own."""

import json
from collections.abc import Iterator, Mapping
from itertools import product

from twinrun.config.definitions import Section


def trials(config: Section) -> Iterator[tuple[str, str, dict[str, object]]]:
    """Return each trial's name, the workload that it varies and its hyperparameters.

    The name is made of the values, as those of Snakemake's Paramspace are, so that a trial keeps
    its runs when others are added. (Paramspace itself wants pandas at every start.)
    """
    if "sweep" not in config["studies"]:
        return
    for workload, crossed in product(config["sweep"]["workloads"], config["sweep"]["trials"]):
        columns = [value if isinstance(value, list) else [value] for value in crossed.values()]
        for values in product(*columns):
            pairs = zip(crossed, values, strict=True)
            name = "~".join([workload, *(f"{key}~{_spelt(value)}" for key, value in pairs)])
            yield name, workload, dict(zip(crossed, values, strict=True))


def alike(config: Section) -> Iterator[tuple[str, str, bool]]:
    """Yield two trials that are given the same hyperparameters, and whether in the same types.

    1 and 1.0 are one number, which most code takes alike.
    """
    in_types: dict[str, str] = {}
    in_numbers: dict[str, str] = {}
    for name, workload, own in trials(config):
        of_workload = config["workloads"].get(workload, {}).get("hyperparameters", {})
        given = [workload, {**of_workload, **own}]
        seen = {name}  # names that are the same are another mistake
        for known, value, is_same in ((in_types, given, True), (in_numbers, _plain(given), False)):
            other = known.setdefault(json.dumps(value, sort_keys=True), name)
            if other not in seen:
                yield other, name, is_same
            seen.add(other)


def _plain(value: object) -> object:
    """Write a fraction that is a whole number as one."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _spelt(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
