"""The standard config with a user's united into it, as by Snakemake so by `twinrun check`.

Key by key, as Snakemake unites config files. An entry of the user's that says by itself what is
trained, or where the data is from, is his own, even if one of ours has its name: it takes nothing
from ours. A sweep of his own workloads does not take the number of epochs from the sweep of ours.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

# Both are Snakemake's own: a file must mean here what it means there.
from snakemake.common.configfile import load_configfile
from snakemake.exceptions import WorkflowError
from snakemake.utils import update_config

from twinrun.config.config_files import mistakes_of
from twinrun.config.definitions import Section
from twinrun.config.shipped import STANDARD
from twinrun.errors import TwinrunError, sentence_of

# The keys that make an entry the user's own. A variant has none: each of its keys changes one of
# ours, or adds to a new one.
OF_ITS_OWN = {"workloads": ("module", "cli"), "datasets": ("make", "file")}


def with_standard(theirs: Section) -> dict[str, Any]:
    """Return the standard config with a config united into it."""
    theirs = _without_nothing(theirs)
    config: dict[str, Any] = {}
    update_config(config, load_configfile(STANDARD))
    for section, keys in OF_ITS_OWN.items():
        entries = theirs.get(section)
        for name, entry in entries.items() if isinstance(entries, Mapping) else ():
            if isinstance(entry, Mapping) and any(entry.get(key) is not None for key in keys):
                config[section].pop(name, None)
    if _sweeps_others(config, theirs):
        # So few are enough of our workload; of any other they would be its first ones.
        del config["sweep"]["epochs"]
    update_config(config, theirs)
    return config


def _without_nothing(theirs: Section) -> Section:
    """Return a config in which `hyperparameters:` with comments alone, as of `init`, are none."""
    entries = theirs.get("workloads")
    if not isinstance(entries, Mapping):
        return theirs
    empty = {
        name: {**entry, "hyperparameters": {}}
        for name, entry in entries.items()
        if isinstance(entry, Mapping) and entry.get("hyperparameters", {}) is None
    }
    return {**theirs, "workloads": {**entries, **empty}}


def _sweeps_others(config: Section, theirs: Section) -> bool:
    """Say whether a config varies other workloads than the standard one's, taken as it is.

    Args:
        config: the standard one, without the entries that the user has of his own.
        theirs: the user's.
    """
    asked = theirs.get("sweep")
    asked = asked.get("workloads") if isinstance(asked, Mapping) else None
    named = asked if isinstance(asked, list) else config["sweep"]["workloads"]
    ours = config["sweep"]["workloads"]
    return any(name not in ours or name not in config["workloads"] for name in named)


def merged(files: Sequence[str | Path]) -> tuple[dict[str, Any], list[str]]:
    """Return the standard config with config files united into it, and the mistakes in the files.

    Raises:
        TwinrunError: with a line for each mistake, if a file cannot be read at all.
    """
    mistakes = [mistake for file in files for mistake in mistakes_of(file)]
    theirs: dict[str, Any] = {}
    for file in files:
        try:
            update_config(theirs, load_configfile(Path(file)))
        except (WorkflowError, RecursionError, OSError, ValueError) as error:
            # Without mistakes of ours it is what Snakemake alone refuses.
            raise TwinrunError("\n".join(mistakes) or f"{file}: {sentence_of(error)}") from error
    return with_standard(theirs), mistakes or [*_dropped(files)]


def mistakes_in(files: Sequence[str | Path]) -> list[str]:
    """Return a sentence for each thing that is not what it looks like, in a file or in all of them.

    Args:
        files: in the order in which they are united.
    """
    return [m for file in files for m in mistakes_of(file)] or [*_dropped(files)]


def _dropped(files: Sequence[str | Path]) -> Iterator[str]:
    given: dict[str, str | Path] = {}  # the last file that gives a workload hyperparameters
    for file in files:
        entries = load_configfile(Path(file)).get("workloads")
        for name, entry in entries.items() if isinstance(entries, Mapping) else ():
            found = entry.get("hyperparameters", {}) if isinstance(entry, Mapping) else {}
            if found is None and name in given:
                yield (
                    f"workloads.{name}.hyperparameters: has no value in {file}, by which those of "
                    f"{given[name]} would be dropped; leave the key out there"
                )
            elif found:
                given[name] = file
