"""What each variant of a page is, said once: where it first appears."""

from collections.abc import Mapping, Sequence
from typing import Any

from twinrun.report.sentence import setting

ALWAYS = ("deterministic", "threads")  # beside what tells the variants of a study apart


def definitions(
    config: Mapping[str, Any], studies: Sequence[str]
) -> dict[str, list[tuple[str, str]]]:
    """Return by study the variants that no study before it has: name and settings.

    >>> variants = {"a": {"threads": 1, "compile": "none"}, "b": {"threads": 1, "compile": "step"}}
    >>> asked = {"variants": variants, "one": {"variants": ["a", "b"]}, "two": {"variants": ["a"]}}
    >>> definitions(asked, ["one", "two"])["one"]
    [('a', '`threads: 1`, `compile: none`'), ('b', '`threads: 1`, `compile: step`')]
    >>> definitions(asked, ["one", "two"])["two"]
    []
    """
    known: set[str] = set()
    found = {}
    for study in studies:
        settings = {
            name: config["variants"][name]
            for name in config[study].get("variants", [])
            if name in config["variants"]
        }
        keys = dict.fromkeys(key for of in settings.values() for key in of)
        told = [key for key in keys if key in ALWAYS or _differs(key, list(settings.values()))]
        found[study] = [
            (name, ", ".join(setting(key, of[key]) for key in told if key in of))
            for name, of in settings.items()
            if name not in known
        ]
        known |= settings.keys()
    return found


def _differs(key: str, settings: Sequence[Mapping[str, object]]) -> bool:
    """Say whether variants have a setting otherwise; equal values may be no keys of a set."""
    return any(of.get(key) != settings[0].get(key) for of in settings)
