"""The trials of a sweep: hyperparameters crossed, each trial a workload of its own."""

from collections.abc import Iterator
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


def _spelt(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
