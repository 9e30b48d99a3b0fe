"""A config against its schema, which also holds every default; its mistakes in the user's terms.

Each mistake is one sentence: the key, the value as YAML writes it (shortened), what would be right.
What a pattern allows is said by the `description` beside it in the schema, never by the pattern.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator, ValidationError, validators

from twinrun.config.definitions import Section
from twinrun.config.keys import written_key
from twinrun.config.where_explained import sections
from twinrun.errors import TwinrunError
from twinrun.wording import meant_path, shown, suggestion, type_hint

Path = tuple[str | int, ...]  # keys of mappings and indices of lists
# What Lightning and others call the same: of `bf16`, which is near to bf16-true, the other one.
ALSO_CALLED = {
    **dict.fromkeys(("16", "fp16", "float16", "half"), "16-mixed"),
    **dict.fromkeys(("bf16", "bfloat16"), "bf16-mixed"),
    **dict.fromkeys(("32", "float32", "float"), "32-true"),
    **dict.fromkeys(("64", "float64", "double"), "64-true"),
    **dict.fromkeys(("max", "maximize"), "highest"),
    **dict.fromkeys(("min", "minimize"), "lowest"),
    "cuda": "gpu",
    "False": "none",  # YAML's `no`
}
# What constructors and functions are given, in an entry of a section: all else has names for keys.
ARGUMENTS = {
    "workloads": (("hyperparameters",), ("trainer", "callbacks"), ("trainer", "logger"), ("cli",)),
    "datasets": (("parameters",),),
}
MOST_MISTAKES = 30  # lines; a list of thousands of wrong values would hide the others
MOST_VALUES = 1_000_000  # in a config: a few aliases of aliases make billions
TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "a mapping of keys to values",
    "string": "a text",
}


class Validated(NamedTuple):
    """A config in the schema's eyes."""

    config: dict[str, Any]
    """A copy with every default; empty of one that no job could be handed."""
    mistakes: list[str]
    """A sentence each."""
    wrong: list[Path]
    """The keys that lead to each."""


def validate(config: Section, schema: Section) -> Validated:
    """Check a config against a schema, and fill the schema's defaults in."""
    try:
        copy = plain(config, [])
    except RecursionError:
        itself = "the config refers to itself (a YAML alias inside its own anchor)"
        return Validated({}, [itself], [()])
    except _NotPlainError as error:
        return Validated({}, [str(error)], [()])
    errors = sorted(_WithDefaults(schema).iter_errors(copy), key=_key_path)
    return Validated(
        config=copy,
        # One sentence names all missing keys of a section: it comes once, not once for each.
        mistakes=list(dict.fromkeys(line for error in errors for line in _sentences(error))),
        wrong=[tuple(error.absolute_path) for error in errors],
    )


def _key_path(error: ValidationError) -> list[tuple[str, int]]:
    """Sort by key, and in a list by number."""
    return [(step, 0) if isinstance(step, str) else ("", step) for step in error.absolute_path]


def listed(mistakes: Sequence[str], title: str = "in the config") -> str:
    """Return the text of an error: how many mistakes there are, the first, what explains them.

    >>> print(listed(["a is missing", "b is missing"]))
    2 errors in the config:
      a is missing
      b is missing
    """
    count = "1 error" if len(mistakes) == 1 else f"{len(mistakes):,} errors"
    lines = [f"{count} {title}:", *(f"  {mistake}" for mistake in mistakes[:MOST_MISTAKES])]
    if len(mistakes) > MOST_MISTAKES:
        lines.append(f"  ... and {len(mistakes) - MOST_MISTAKES:,} more")
    if explained := ", ".join(sections(mistakes[:MOST_MISTAKES])):
        lines.append(f"Explained in {explained}")
    return "\n".join(lines)


class _NotPlainError(TwinrunError):
    """A value that no job could be handed."""


def plain(value: object, path: list[str], count: list[int] | None = None) -> Any:
    """Copy what JSON can say too; YAML also knows dates, sets and values inside themselves."""
    count = [0] if count is None else count
    count[0] += 1
    if count[0] > MOST_VALUES:
        raise _NotPlainError(
            f"{'.'.join(path[:4])}: the config holds more than {MOST_VALUES:,} values; aliases of "
            f"lists of aliases multiply"
        )
    if isinstance(value, Mapping):
        written = [_written(k, path) if _is_argument(path) else str(k) for k in value]
        items = zip(written, value.values(), strict=True)
        return {k: plain(item, [*path, k], count) for k, item in items}
    if isinstance(value, list | tuple):
        return [plain(item, [*path, str(index)], count) for index, item in enumerate(value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise _NotPlainError(
        f"{'.'.join(path) or 'the config'}: {shown(value)} is no text, number, list or mapping; "
        f"put a text in quotation marks"
    )


def _is_argument(path: list[str]) -> bool:
    """Say whether a mapping is a value that code is given, which keeps its keys.

    >>> _is_argument(["workloads", "mine", "hyperparameters", "factors"])
    True
    >>> _is_argument(["workloads", "mine", "trainer", "accumulate_grad_batches"])
    False
    """
    sections = ARGUMENTS.get(path[0], ()) if len(path) > 3 else ()  # the names of arguments are 3
    return any(tuple(path[2 : 2 + len(each)]) == each for each in sections)


def _written(key: object, path: list[str]) -> str:
    try:
        return written_key(key)
    except TypeError as error:
        raise _NotPlainError(f"{'.'.join(path)}: the key {error}") from error


def _fill_defaults(
    validate_properties: Callable[..., Iterator[ValidationError]],
) -> Callable[..., Iterator[ValidationError]]:
    """Extend jsonschema as its documentation shows: defaults are set before they are checked.

    https://python-jsonschema.readthedocs.io/en/stable/faq/
    """

    def properties(
        validator: Any, properties: Section, instance: Any, schema: Section
    ) -> Iterator[ValidationError]:
        # A wrong type is another keyword's mistake.
        if isinstance(instance, dict):
            for name, subschema in properties.items():
                if "default" in subschema and name not in instance:
                    instance[name] = plain(subschema["default"], [])
        yield from validate_properties(validator, properties, instance, schema)

    return properties


def _is_integer(_: Any, value: object) -> bool:
    """JSON Schema calls 3.0 an integer, which `range` and a job's arguments do not."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(_: Any, value: object) -> bool:
    """No bound refuses a NaN: every comparison with it is false."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and not (isinstance(value, float) and math.isnan(value))


_WithDefaults = validators.extend(
    Draft202012Validator,
    {"properties": _fill_defaults(Draft202012Validator.VALIDATORS["properties"])},
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine_many(
        {"integer": _is_integer, "number": _is_number}
    ),
)


def _sentences(error: ValidationError) -> Iterator[str]:
    """Say a schema error in the user's terms: key, value, what is allowed."""
    # jsonschema's own annotations allow for attributes that are not set yet.
    rule: Any = error.validator_value
    schema: Any = error.schema
    instance: Any = error.instance
    kind = str(error.validator)
    path = ".".join(map(str, error.absolute_path))
    key, value = path or "the config", shown(instance)
    match kind:
        case "additionalProperties":
            for name in instance:
                if name not in schema.get("properties", {}):
                    hint = _hint(name, schema)
                    hint += "" if hint.endswith("?") else _of_anchor(instance[name], schema)
                    yield f"{f'{path}.{name}'.lstrip('.')}: unknown key{hint}"
        case "required":
            missing = [name for name in rule if name not in instance]
            yield f"{key}: the key {', '.join(missing)} is missing"
        case "oneOf":
            yield f"{key}: needs exactly one of `make` and `file`"
        case "enum":
            choices = [shown(item).strip("'") for item in rule]
            same = ALSO_CALLED.get(str(instance))
            # No choice is a word like `no`, so that quotation marks would not help.
            near = "" if isinstance(instance, bool) else type_hint(instance, ["string"])
            near = f"; write {same}" if same in choices else near
            near = near or suggestion(instance, choices, list_all=False)
            yield f"{key}: {value} is not one of {', '.join(choices)}{near}"
        case "type":
            wanted = [rule] if isinstance(rule, str) else rule
            pattern = schema.get("pattern")
            if isinstance(instance, int | float) and pattern and not re.match(pattern, value):
                # As a text it would be refused again.
                yield f"{key}: {value} is not {schema['description']}"
                return
            yield f"{key}: {_of_type(instance, wanted, schema.get('x-instead', ''))}"
        case "minimum" | "maximum":
            least, most = schema.get("minimum"), schema.get("maximum")
            yield f"{key}: {value} is out of range, allowed are {least} to {most}"
        case "minItems" if rule > 1:
            yield f"{key}: {value} names {len(instance)}, {rule} are needed"
        case "minItems":
            yield f"{key}: the list is empty, name at least one"
        case "minProperties":
            yield f"{key}: {value} is empty, name at least one key and its value"
        case "maxItems":
            yield f"{key}: {len(instance):,} are too many for the list, {rule:,} are allowed"
        case "minLength":
            yield f"{key}: the text is empty"
        case "maxLength":
            yield f"{key}: {value} has {len(instance):,} letters, {rule:,} are allowed"
        case "uniqueItems":
            yield f"{key}: {shown(_first_twice(instance))} is named twice; leave one out"
        case "not":
            yield f"{key}: {value} is given by the run and cannot be set"
        case _:  # pattern, anyOf: the schema says in words what would be right
            is_path = kind == "pattern" and "import path" in schema["description"]
            meant = meant_path(instance) if is_path else ""
            yield f"{key}: {value} is not {schema['description']}{meant}"


def _hint(name: str, schema: Section) -> str:
    """Say what there is in the place of an unknown key."""
    if (instead := schema.get("x-instead", {}).get(name)) is not None:
        return f"; say it as {instead}"
    if (reason := schema.get("x-without", {}).get(name)) is not None:
        return f"; leave it out: {reason}"
    known = list(schema.get("properties", {}))
    hint = suggestion(name, known)
    if "hyperparameters" in known and not hint.endswith("?"):
        return f"; an argument of the module or the data stands under `hyperparameters`{hint}"
    return hint


def _of_anchor(value: object, schema: Section) -> str:
    """Say where an anchor may stand, of what may be a section for anchors alone."""
    is_section = "studies" in schema.get("properties", {})
    if not is_section or not isinstance(value, Mapping | list):
        return ""
    return "; what an anchor shares stands in the first that has it, {a: &b {...}, c: {<<: *b}}"


def _first_twice(items: Sequence[Any]) -> Any:
    return next(item for index, item in enumerate(items) if item in items[:index])


def _of_type(value: object, wanted: Sequence[str], instead: str = "") -> str:
    """Say that a value is of the wrong type, and how it should be written.

    Args:
        value: the value.
        wanted: the types that it may have.
        instead: what says what a true or false would.

    >>> _of_type(None, ["object"])
    'the section is empty; give it keys, or leave it out'
    >>> _of_type(3.0, ["integer"])
    '3.0 is of the wrong type, expected a whole number; write 3'
    """
    if value is None and wanted[0] == "object":
        return "the section is empty; give it keys, or leave it out"
    if value is None and wanted[0] == "array":
        return "the list is empty; name something in it, or leave the key out"
    expected = " or ".join(TYPES[name] for name in wanted)
    is_switch = isinstance(value, bool) and instead
    hint = f"; say it as {instead}" if is_switch else type_hint(value, wanted)
    return f"{shown(value)} is of the wrong type, expected {expected}{hint}"
