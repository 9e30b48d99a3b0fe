"""A config against its schema, which also holds every default; its mistakes in the user's terms."""

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator, ValidationError, validators


def validate(
    config: Mapping[str, Any], schema: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Give a copy of the config with defaults, and all its mistakes in the schema's eyes."""
    try:
        copy = _plain(config)
    except RecursionError:
        return {}, ["the config refers to itself (a YAML alias inside its own anchor)"]
    except _NotPlainError as error:
        return {}, [str(error)]
    errors = sorted(_WithDefaults(schema).iter_errors(copy), key=lambda e: [*map(str, e.path)])
    # One sentence names all missing keys of a place: it comes once, not once for each.
    return copy, list(dict.fromkeys(_sentence(error) for error in errors))


class _NotPlainError(Exception):
    """A value that no job could be handed."""


def _plain(value: Any, key: str = "") -> Any:
    """Copy what JSON can say too; YAML also knows dates, sets and values inside themselves."""
    if isinstance(value, Mapping):
        return {str(k): _plain(item, f"{key}.{k}".lstrip(".")) for k, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{key}.{index}") for index, item in enumerate(value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise _NotPlainError(
        f"{key}: {_shown(value)} is of the wrong type: put a text in quotation marks"
    )


def _fill_defaults(
    validate_properties: Callable[..., Iterator[ValidationError]],
) -> Callable[..., Iterator[ValidationError]]:
    """Extend jsonschema as its documentation shows: defaults are set before they are checked."""

    def properties(
        validator: Any, properties: Mapping[str, Any], instance: Any, schema: Mapping[str, Any]
    ) -> Iterator[ValidationError]:
        if isinstance(instance, dict):
            for name, subschema in properties.items():
                if "default" in subschema and name not in instance:
                    instance[name] = _plain(subschema["default"])
        yield from validate_properties(validator, properties, instance, schema)

    return properties


_WithDefaults = validators.extend(
    Draft202012Validator,
    {"properties": _fill_defaults(Draft202012Validator.VALIDATORS["properties"])},
)


def _sentence(error: ValidationError) -> str:
    """Say a schema error in the user's terms: key, value, what is allowed."""
    key = ".".join(map(str, error.absolute_path)) or "the config"
    value, rule = _shown(error.instance), error.validator_value
    match error.validator:
        case "additionalProperties":
            known = list(error.schema.get("properties", {}))
            unknown = [name for name in error.instance if name not in known]
            prefix = "" if key == "the config" else f"{key}."
            return "; ".join(f"{prefix}{n}: unknown key{suggestion(n, known)}" for n in unknown)
        case "required":
            missing = [name for name in rule if name not in error.instance]
            return f"{key}: the key {', '.join(missing)} is missing"
        case "anyOf":
            return f"{key}: {value} is no number, true, false or word, nor a list of them"
        case "oneOf":
            return f"{key}: needs either `make` or `file`, not both and not neither"
        case "enum":
            close = suggestion(error.instance, rule, list_all=False)
            return f"{key}: {value} is not one of {', '.join(map(str, rule))}{close}"
        case "type":
            expected = " or ".join([rule] if isinstance(rule, str) else rule)
            return f"{key}: {value} is of the wrong type, expected {expected}"
        case "minimum" | "maximum":
            least, most = error.schema.get("minimum"), error.schema.get("maximum")
            return f"{key}: {value} is out of range, allowed are {least} to {most}"
        case "minItems":
            return f"{key}: the list is empty, name at least one"
        case "uniqueItems":
            return f"{key}: {value} names something twice"
        case "pattern" if rule.startswith("^[A-Za-z][A-Za-z0-9_-]"):
            return (
                f"{key}: {value} is not a name (letters, digits, _ and -, beginning with a letter, "
                f"at most 40)"
            )
        case "pattern" if ":" in rule:
            return f"{key}: {value} is not an import path like package.module:Class"
        case "pattern" if rule.startswith("^(<"):
            return f"{key}: {value} is not a limit like '<= 1.25'"
        case "not":
            return f"{key}: {value} is given by the run and cannot be set"
        case _:
            return f"{key}: {error.message}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def suggestion(name: Any, known: list[str], *, list_all: bool = True) -> str:
    """Say what a wrong name may have meant; else, with `list_all`, what there is to name."""
    near = difflib.get_close_matches(str(name), list(map(str, known)), n=1)
    if near:
        return f", did you mean {near[0]}?"
    return f"; known: {', '.join(map(str, known))}" if list_all and known else ""
