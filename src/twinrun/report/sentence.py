"""A sentence of advice: what it is about, with the verdicts it rests on, and what it says."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from twinrun.verdicts.rows import VerdictRow
from twinrun.wording import shown


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """One sentence; what it says rests on the verdicts of its subjects."""

    subjects: Sequence[tuple[str, str]]
    """Workloads, each with the id of a verdict's row."""
    says: str
    """The rest, without the full stop; code stands between backticks."""


def sentence(row: VerdictRow, says: str) -> Sentence:
    """Say something that rests on a verdict."""
    return Sentence(subjects=[(row["workload"], row_id(row))], says=says)


def row_id(row: VerdictRow) -> str:
    """Name the row of a verdict in the page; those of several sizes or seeds are one.

    >>> row_id({"study": "matrix", "key": "repeats", "workload": "lr~0.1", "variant": "serial"})
    'verdict-matrix-repeats-lr~0.1-serial'
    """
    names = "-".join((row["study"], row["key"], row["workload"], row["variant"]))
    return f"verdict-{re.sub(r'[^A-Za-z0-9~._-]', '-', names)}"


def each_once(subjects: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Name each workload once, with the first of its rows.

    >>> each_once([("digits", "a"), ("peaks", "b"), ("digits", "c")])
    [('digits', 'a'), ('peaks', 'b')]
    """
    by_name: dict[str, str] = {}
    for name, row in subjects:
        by_name.setdefault(name, row)
    return list(by_name.items())


def merged(sentences: Iterable[Sentence]) -> list[Sentence]:
    """Say once what is said of several workloads.

    >>> first, second = (Sentence(subjects=[(name, name)], says="repeats") for name in "ab")
    >>> [found.subjects for found in merged([first, second])]
    [[('a', 'a'), ('b', 'b')]]
    """
    by_words: dict[str, Sentence] = {}
    for found in sentences:
        known = by_words.get(found.says)
        subjects = [*known.subjects, *found.subjects] if known else [*found.subjects]
        by_words[found.says] = replace(found, subjects=each_once(subjects))
    return list(by_words.values())


def setting(key: str, value: object) -> str:
    """Write a setting as a config has it.

    >>> setting("compile", "step"), setting("trace", None)
    ('`compile: step`', '`trace: null`')
    """
    return f"`{key}: {value if isinstance(value, str) else shown(value)}`"


def listed(names: Iterable[str], *, most: int = 4) -> str:
    """Name the first of some, and how many more there are, each once.

    >>> listed(["a", "b", "a"]), listed("abcdef")
    ('a and b', 'a, b, c, d and 2 more')
    """
    different = list(dict.fromkeys(names))
    # "and 1 more" is no shorter than the name.
    if len(different) > most + 1:
        different = [*different[:most], f"{len(different) - most} more"]
    *others, last = different
    return f"{', '.join(others)} and {last}" if others else last
