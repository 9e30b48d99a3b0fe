"""The standard config with sections changed, resolved for a machine."""

from pathlib import Path

import yaml

from twinrun.config.reference import SCHEMA
from twinrun.config.settings import Settings, resolve

STANDARD = Path(__file__).parents[1] / "config.yaml"


def merged(base, change):
    """Unite two mappings key by key, as Snakemake does with config files."""
    both = dict(base)
    for key, value in change.items():
        nested = isinstance(value, dict) and isinstance(both.get(key), dict)
        both[key] = merged(both[key], value) if nested else value
    return both


def resolved(gpus: int = 0, **sections) -> Settings:
    return resolve(merged(yaml.safe_load(STANDARD.read_text()), sections), SCHEMA, gpus=gpus)
