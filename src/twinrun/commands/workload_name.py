"""The name of a workload that `twinrun init` writes."""

import re
import unicodedata
from collections.abc import Collection

import yaml

from twinrun.config.own_config import own_config
from twinrun.config.with_standard import merged

LONGEST = 40  # letters, as the schema of the config has it


def names_taken() -> Collection[str]:
    """Return the names of workloads that are built in, or are in the config that always counts.

    A further file that has one of them would be united with it, key by key.

    Raises:
        TwinrunError: if that config cannot be read.
    """
    workloads = merged(own_config())[0]["workloads"]
    return workloads if isinstance(workloads, dict) else ()


def name_of(module: str, taken: Collection[str]) -> str:
    """Return the name of a workload for an import path, as a config may have it.

    It is none that is taken, nor a word that is no text to YAML.

    >>> name_of("package.models:MyBERTModule", []), name_of("mine:Digits", ["digits"])
    ('my-bert-module', 'my-digits')
    >>> name_of("mine:Digits", ["digits", "my-digits"])
    'my-digits-2'
    """
    words = re.sub(r"([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])", r"\1\3-\2\4", module.partition(":")[2])
    letters = unicodedata.normalize("NFKD", words.casefold()).encode("ascii", "ignore").decode()
    name = re.sub("[^a-z0-9]+", "-", letters).lstrip("-0123456789")[:LONGEST].rstrip("-")
    if not name:  # of letters that have no like in ASCII
        name = "mine"
    if name in taken or yaml.safe_load(name) != name:
        name = f"my-{name}"[:LONGEST]
    number, found = 2, name
    while found in taken:
        found, number = f"{name[: LONGEST - 4]}-{number}", number + 1
    return found
