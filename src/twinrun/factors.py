"""One baseline, one factor changed at a time: from the section `matrix` of a config to its cells.

A factor is a setting of a variant, so nothing here knows any of them: each value makes a variant
of its own from the baseline, and the runs are those of every other variant. Two cells are always
there: `repeat`, the baseline once more, without whose equality no other cell says anything, and
`seed`, the baseline from another seed, which says how large a difference can be.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

TOGETHER = "together"  # a factor whose values are mappings of several settings
LONGEST_NAME = 100


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A change of the baseline, and the run that shows what it does."""

    name: str
    """Part of a path: the factor and its value."""
    label: str
    """For readers, as one would write it in the config."""
    factor: str
    changes: Mapping[str, Any]
    """Settings of the variant that are not the baseline's."""
    variant: str
    seed: int
    repeat: int


def cells(matrix: Mapping[str, Any]) -> list[Cell]:
    """List the cells: the repeat, each value of each factor, the other seed."""
    baseline, seed, other = (matrix[key] for key in ("baseline", "seed", "other_seed"))
    same = {"variant": baseline, "seed": seed, "repeat": 1, "changes": {}}
    return [
        Cell(**{**same, "repeat": 2}, name="repeat", factor="repeat", label="repeat"),
        *(
            Cell(
                name=_name(change),
                label=", ".join(_labels(change)),
                factor=factor,
                **{**same, "changes": change, "variant": f"{baseline}-{_name(change)}"},
            )
            for factor, _, change in changes(matrix)
        ),
        Cell(**{**same, "seed": other}, name="seed", factor="seed", label=f"seed: {other}"),
    ]


def changes(matrix: Mapping[str, Any]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Give for each value its factor, its place in the list, and the settings that it changes."""
    for factor, values in matrix["factors"].items():
        for index, value in enumerate(values):
            yield factor, index, dict(value) if factor == TOGETHER else {factor: value}


def contradictions(config: Mapping[str, Any]) -> Iterator[str]:
    """Find values that are the baseline's own, and names that two cells would share."""
    matrix = config["matrix"]
    baseline = config["variants"][matrix["baseline"]]
    taken = {"repeat", "seed"} | set(config["variants"])
    if matrix["seed"] == matrix["other_seed"]:
        yield f"matrix.other_seed: {matrix['seed']} is the baseline's seed, name another"
    for factor, index, change in changes(matrix):
        key, name = f"matrix.factors.{factor}.{index}", _name(change)
        if all(baseline.get(setting) == value for setting, value in change.items()):
            yield f"{key}: {_shown(change)} is what the baseline has, leave it out"
        elif name in taken:
            yield f"{key}: its runs would be called {name}, as those of another cell are"
        elif len(name) > LONGEST_NAME:
            yield f"{key}: its name, {name[:20]}..., is longer than {LONGEST_NAME} letters"
        taken.add(name)


def _labels(change: Mapping[str, Any]) -> Iterator[str]:
    """Name what is changed; an environment variable needs no other name than its own."""
    for key, value in change.items():
        yield _shown(value) if isinstance(value, Mapping) else f"{key}: {_shown(value)}"


def _name(change: Mapping[str, Any]) -> str:
    text = "-".join(f"{key}-{_shown(value)}" for key, value in change.items())
    return re.sub("[^A-Za-z0-9_]+", "-", text).strip("-")


def _shown(value: Any) -> str:
    """Write a value as YAML would, short.

    >>> _shown(False), _shown({"MKL_CBWR": "AVX2"}), _shown("32-true")
    ('false', 'MKL_CBWR=AVX2', '32-true')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return " ".join(f"{key}={_shown(item)}" for key, item in value.items())
    return str(value)
