"""What can be said of a config that its schema finds wrong in some places.

Mistakes are told all at once: one in a part of a config hides none in the others. What is wrong is
put aside here, so that the rest can be looked at for what no schema can say, and nothing is said
of what was put aside, or follows from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twinrun.config.definitions import Section
from twinrun.config.schema_check import Path, validate

COLLECTIONS = ("datasets", "workloads", "variants")


@dataclass(frozen=True, kw_only=True)
class SoundPart:
    """A config without what is wrong in it."""

    config: dict[str, Any]
    """The config; entries and studies with a mistake hold harmless values in their place."""
    wrong: Sequence[Path]
    """Where the schema finds mistakes."""

    def is_wrong(self, *path: str) -> bool:
        """Say whether there is a mistake at a key or below it."""
        return any(found[: len(path)] == path for found in self.wrong)

    def may_name(self, collection: str, name: str) -> bool:
        """Say whether an entry is called so, or may be once the names of all are right."""
        return name in self.config[collection] or (collection,) in self.wrong


def sound_part(config: Section, schema: Section, wrong: Sequence[Path]) -> SoundPart | None:
    """Put aside what is wrong; None where nothing can be said of the rest.

    Args:
        config: with every default that could be filled in.
        schema: of the config.
        wrong: where the schema finds mistakes.
    """
    if not all(isinstance(config.get(name), dict) for name in COLLECTIONS):
        return None  # nobody knows which names there are
    whole = SoundPart(config=dict(config), wrong=wrong)
    for collection in COLLECTIONS:
        entries = config[collection]
        whole.config[collection] = {
            name: _entry(whole, collection, name, schema) for name in entries
        }
    known = schema["properties"]["studies"]["items"]["enum"]
    asked = config.get("studies")
    names = asked if isinstance(asked, list) else []
    whole.config["studies"] = [name for name in known if name in names]
    required, is_whole = config.get("require"), ("require",) not in wrong
    if whole.is_wrong("require"):
        right = required if isinstance(required, Mapping) and is_whole else {}
        whole.config["require"] = {
            key: value for key, value in right.items() if not whole.is_wrong("require", key)
        }
    return whole


def _entry(part: SoundPart, collection: str, name: str, schema: Section) -> dict[str, Any]:
    """Return a workload, dataset or variant without what is wrong in it."""
    entry = part.config[collection][name]
    if not part.is_wrong(collection, name):
        return entry
    of_entry = schema["properties"][collection]["additionalProperties"]
    neutral = validate({}, {"$defs": schema["$defs"], **of_entry}).config
    # Settings of a variant contradict each other: of one that is wrong, none is believed.
    if collection != "variants":
        neutral |= {"epochs": 2, "dataset": None}
    is_as_a_whole = collection == "datasets" and (collection, name) in part.wrong
    if collection == "variants" or is_as_a_whole or not isinstance(entry, Mapping):
        return neutral
    right = {key: entry[key] for key in entry if not part.is_wrong(collection, name, key)}
    return {**neutral, **right}
