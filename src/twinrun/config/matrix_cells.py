"""One baseline, one factor changed at a time: from the section `matrix` of a config to its cells.

A factor is a setting of a variant, so nothing here knows any of them: each change makes a variant
of its own from the baseline, and the runs are those of every other variant. Two cells are always
there: `repeat`, the baseline once more, without whose equality no other cell says anything, and
`seed`, the baseline from another seed, which says how large a difference can be.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twinrun.config.definitions import Section

LONGEST_NAME = 100
# Of the parameters; a mixed precision keeps them in float32.
TYPES = {"64-true": "float64", "bf16-true": "bfloat16"}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A change of the baseline, and the run that shows what it does."""

    name: str
    """Part of a path: what is changed, and its value."""
    label: str
    """For readers, as one would write it in the config."""
    change: Section
    """Settings of the variant that are not the baseline's."""
    variant: str
    """Name of the variant that has the change."""
    seed: int
    """The seed of its run."""
    repeat: int
    """The repeat of its run, from 1."""


def cells(matrix: Section) -> list[Cell]:
    """List the cells: the repeat, each change, the other seed."""
    baseline, seed, other = (matrix[key] for key in ("baseline", "seed", "other_seed"))
    same = {"variant": baseline, "seed": seed, "repeat": 1, "change": {}}
    return [
        Cell(**{**same, "repeat": 2}, name="repeat", label="repeat"),
        *(
            Cell(
                name=_name(change),
                label=", ".join(_labels(change)),
                **{**same, "change": change, "variant": f"{baseline}-{_name(change)}"},
            )
            for change in matrix["changes"]
        ),
        Cell(**{**same, "seed": other}, name="seed", label=f"seed: {other}"),
    ]


def with_change(baseline: Section, change: Section) -> dict[str, object]:
    """Return the settings of a baseline with those of a change; mappings are merged, key by key.

    >>> with_change({"environment": {"A": "1"}}, {"environment": {"B": "2"}})
    {'environment': {'A': '1', 'B': '2'}}
    """
    # A change of one environment variable must not take the baseline's others away.
    merged = {
        key: {**baseline[key], **value}
        for key, value in change.items()
        if isinstance(value, Mapping) and isinstance(baseline.get(key), Mapping)
    }
    return {**baseline, **change, **merged}


def contradictions(config: Section) -> Iterator[str]:
    """Find values that are the baseline's own, and names that two cells would share."""
    matrix = config["matrix"]
    baseline = config["variants"][matrix["baseline"]]
    taken = {"repeat", "seed"}
    if matrix["seed"] == matrix["other_seed"]:
        yield f"matrix.other_seed: {matrix['seed']} is the baseline's seed, name another"
    for index, change in enumerate(matrix["changes"]):
        key, name = f"matrix.changes.{index}", _name(change)
        yield from _of_types(baseline, change, key)
        if with_change(baseline, change) == {**baseline}:
            yield f"{key}: {_shown(change)} is what the baseline has, leave it out"
        elif name in taken:
            yield f"{key}: its runs would be called {name}, as those of another cell are"
        elif len(name) > LONGEST_NAME:
            yield f"{key}: its name, {name[:20]}..., is longer than {LONGEST_NAME} letters"
        changed = {f"{matrix['baseline']}-{name}": with_change(baseline, change)}
        yield from names_taken(config, changed, key)
        # Two changes may be written alike once all but letters and digits are dashes.
        taken.add(name)


def _of_types(baseline: Section, change: Section, key: str) -> Iterator[str]:
    """Refuse a precision that keeps the parameters in another type than the baseline's."""
    precision = change.get("precision", baseline["precision"])
    found, of_baseline = (TYPES.get(str(p), "float32") for p in (precision, baseline["precision"]))
    if found != of_baseline:
        yield (
            f"{key}.precision: {precision} keeps the parameters in {found}, and the baseline in "
            f"{of_baseline}: no byte of the one has its like in the other; change to a mixed "
            f"precision, or name another baseline"
        )


def names_taken(config: Section, derived: Mapping[str, Section], key: str) -> Iterator[str]:
    """Find variants of the config with the name of one that a study makes, and other settings.

    Args:
        config: with every default filled in.
        derived: the settings of what the study makes, by name.
        key: of what it is made from.
    """
    for name, settings in derived.items():
        # With the same settings they are the same runs, and shared.
        if config["variants"].get(name, settings) != settings:
            yield f"variants.{name}: {key} calls other runs so, choose another name"


def _labels(change: Section) -> Iterator[str]:
    """Name what is changed; an environment variable needs no other name than its own."""
    for key, value in change.items():
        yield _shown(value) if isinstance(value, Mapping) else f"{key}: {_shown(value)}"


def _name(change: Section) -> str:
    text = "-".join(f"{key}-{_shown(value)}" for key, value in change.items())
    return re.sub("[^A-Za-z0-9_]+", "-", text).strip("-")


def _shown(value: object) -> str:
    """Write a value as YAML would, short.

    >>> _shown(False), _shown({"MKL_CBWR": "AVX2"}), _shown("32-true")
    ('false', 'MKL_CBWR=AVX2', '32-true')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return " ".join(f"{key}={_shown(item)}" for key, item in value.items())
    return str(value)
