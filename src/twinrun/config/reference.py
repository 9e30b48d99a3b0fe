"""The reference of the config: python -m twinrun.config.reference > docs/config.md."""

from collections.abc import Collection, Iterator, Mapping

import msgspec
import yaml

from twinrun.config.definitions import Section
from twinrun.config.shipped import SCHEMA

HEADER = """\
# The configuration

<!-- Made from config.schema.yaml by: python -m twinrun.config.reference > docs/config.md -->

`config.yaml` holds the full-size studies. A file of yours, given by `--configfile mine.yaml`, is
merged into it: mappings are merged key by key, lists are replaced. So `studies:
[reproducibility]` and `reproducibility: {workloads: [mine]}` run your workload and not ours. A
key that your file does not set has the value of `config.yaml`, or the default below if
`config.yaml` does not set it either. Every key is checked before any job starts; unknown keys are
errors.

A workload for which your file gives `module` or `cli`, and a dataset for which it gives `make` or
`file`, is yours alone: if a built-in one has the same name, yours replaces it whole. Where your
file gives other keys only, they change the built-in one (`digits: {epochs: 5}`). A variant is
always changed key by key: under the name of a built-in one, yours has the settings of ours that it
does not give, so a variant of your own needs a name of its own.

`<name>` stands for a name of yours: letters, digits, `_` and `-`, beginning with a letter, at most
40 characters.

| key | what it is for | allowed | default |
| --- | --- | --- | --- |
"""


def reference(schema: Section) -> str:
    """Return the Markdown page of a schema: a row for each key, in the schema's order."""
    rows = [" | ".join(["", *row, ""]).strip() for row in _rows(schema, schema, prefix="")]
    return HEADER + "\n".join(rows) + "\n"


def _rows(node: Section, schema: Section, prefix: str) -> Iterator[tuple[str, str, str, str]]:
    for name, value in node.get("properties", {}).items():
        entry = {**_referenced(value, schema), **value}
        key = f"{prefix}{name}"
        description = " ".join(entry.get("description", "").split())
        default = _default(entry, required=name in node.get("required", []))
        yield f"`{key}`", description, _allowed(entry, schema), default
        # A section's own keys follow it, then those of what is named by the user.
        yield from _rows(entry, schema, prefix=f"{key}.")
        named = entry.get("additionalProperties")
        if isinstance(named, Mapping):
            yield from _rows(named, schema, prefix=f"{key}.<name>.")


def _referenced(value: Section, schema: Section) -> Section:
    return schema["$defs"][value["$ref"].rpartition("/")[2]] if "$ref" in value else {}


def _allowed(entry: Section, schema: Section) -> str:
    if "enum" in entry:
        return ", ".join(f"`{_shown(value)}`" for value in entry["enum"])
    kind = entry.get("type", "any")
    text = " or ".join([kind] if isinstance(kind, str) else kind)
    if kind == "array":
        items = entry["items"]
        text = f"list of: {_allowed({**_referenced(items, schema), **items}, schema)}"
    if "pattern" in entry:
        # As errors say it: each pattern stands once, in a definition with its words.
        words = {
            each.get("pattern"): each.get("description", text) for each in _definitions(schema)
        }
        text = words.get(entry["pattern"], text).partition(": ")[0]
    if "minimum" in entry:
        text += f", {entry['minimum']} to {entry['maximum']}"
    return text


def _definitions(schema: Section) -> Collection[Section]:
    return schema.get("$defs", {}).values()


def _default(entry: Section, *, required: bool) -> str:
    if "default" in entry:
        return f"`{_shown(entry['default'])}`"
    return "required" if required else ""


def _shown(value: object) -> str:
    return yaml.safe_dump(value, default_flow_style=True).removesuffix("\n...\n").strip()


if __name__ == "__main__":
    print(reference(msgspec.yaml.decode(SCHEMA.read_bytes())), end="")
