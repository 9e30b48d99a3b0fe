"""The config file that counts without being named."""

import difflib
from pathlib import Path

import msgspec

from twinrun.config.config_files import said_by
from twinrun.config.shipped import SCHEMA

# Where users of Snakemake keep it, beside their code: it counts without being named.
OWN = Path("config/config.yaml")
OURS = {"workloads", "studies", "variants", "reproducibility", "acceleration", "contest"}


def own_config(folder: Path = Path()) -> list[Path]:
    """Return the config file of a working directory, if it has one.

    Other programs keep theirs under that name, too.
    """
    file = folder / OWN
    return [file] if file.is_file() and not is_of_another_program(file) else []


def is_of_another_program(file: Path) -> bool:
    """Say whether a config file has keys that Twinrun does not know, and none that only it has.

    Some are common to both (devices, accelerator, datasets); one that is all but known is a slip.
    """
    try:
        found = said_by(file.read_text(encoding="utf-8"))
    except Exception:  # who reads it as a config says what is wrong
        return False
    if not isinstance(found, dict) or not found:
        return False
    known = list(msgspec.yaml.decode(SCHEMA.read_bytes())["properties"])
    named = [str(key) for key in found]
    if not OURS.isdisjoint(named):
        return False
    return not all(difflib.get_close_matches(key, known, n=1) for key in named)
