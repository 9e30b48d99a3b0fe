"""Any config at all resolves or is refused in the user's terms, never by another exception."""

import copy
import datetime
import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from twinrun.config.reference import SCHEMA
from twinrun.config.settings import resolve
from twinrun.errors import TwinrunError

ROOT = Path(__file__).parents[2]
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
RULES = yaml.safe_load(Path(SCHEMA).read_text())


def keys_of(schema):
    """Name every key that the schema knows, at any level."""
    for name, inner in schema.get("properties", {}).items():
        yield name
        yield from keys_of(inner)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from keys_of(schema["additionalProperties"])


KEYS = sorted({*keys_of(RULES), *CONFIG["workloads"], *CONFIG["variants"], *CONFIG["datasets"]})
words = st.sampled_from([*KEYS, "a.b:C", "auto", "gpu", "a\n", "../a", "a\0b", "x" * 300, "1"])
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    words,
    st.dates(),
    st.binary(max_size=3),
    st.sets(st.integers(), max_size=2),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(words, st.integers(), st.dates(), st.none()), inner, max_size=4),
    ),
    max_leaves=12,
)


@st.composite
def edited_configs(draw):
    """Draw the standard config with up to three places changed, removed or added."""
    config = copy.deepcopy(CONFIG)
    for _ in range(draw(st.integers(1, 3))):
        place = config
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = draw(st.sampled_from(keys)) if keys else None
            deeper = key is not None and isinstance(place[key], dict | list)
            if not (deeper and draw(st.booleans())):
                break
            place = place[key]
        match draw(st.sampled_from(["change", "remove", "add"])):
            case "change" if key is not None:
                place[key] = draw(values)
            case "remove" if key is not None:
                del place[key]
            case _ if isinstance(place, dict):
                place[draw(words)] = draw(values)
            case _:
                place.append(draw(values))
    return config


def assert_resolved_or_refused(config):
    """Refused in a line for each mistake; else fit for a job's parameters and a file's name."""
    try:
        found = resolve(config, SCHEMA, gpus=0)
    except TwinrunError as error:
        title, *lines = str(error).splitlines()
        assert re.fullmatch(r"\d+ errors? in the config:", title)
        assert lines
        return
    handed_to_jobs = [*found.workloads.values(), *found.variants.values(), *found.timings.values()]
    assert json.dumps([found.config, *map(asdict, handed_to_jobs)])
    for name in [*found.datasets, *found.variants, *found.timings]:
        assert re.fullmatch("[A-Za-z][A-Za-z0-9_-]*", name)
    for name in found.workloads:  # of a trial it carries values
        assert re.fullmatch("[A-Za-z][A-Za-z0-9_~.+-]*", name)
    for study in [name for name in found.studies if "variants" in found.config[name]]:
        assert set(found.variants_of(study)) <= set(found.variants)
    assert set(found.active_workloads()) <= set(found.workloads)


@settings(max_examples=40, deadline=None)
@given(edited_configs())
def test_an_edited_config_resolves_or_is_refused(config):
    assert_resolved_or_refused(config)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(words, values, max_size=6))
def test_an_arbitrary_config_resolves_or_is_refused(config):
    assert_resolved_or_refused(config)


def test_the_standard_config_is_not_refused():
    """Else the properties above could hold by refusing everything."""
    assert_resolved_or_refused(CONFIG)
    assert resolve(CONFIG, SCHEMA, gpus=0).studies


def test_dates_are_refused_and_their_text_is_not():
    config = copy.deepcopy(CONFIG)
    config["datasets"]["digits"]["parameters"]["day"] = "2026-01-31"
    assert resolve(config, SCHEMA, gpus=0)
    config["datasets"]["digits"]["parameters"]["day"] = datetime.date(2026, 1, 31)
    with pytest.raises(TwinrunError, match=r"datasets\.digits\.parameters\.day"):
        resolve(config, SCHEMA, gpus=0)
