"""The config as far as the page's studies use it, as YAML."""

from collections.abc import Mapping
from typing import Any

import yaml

from twinrun.config.studies import STUDIES


def used(config: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out studies that are not asked for, and the definitions that none of the others names.

    >>> study = {"workloads": ["digits"], "variants": ["eager"]}
    >>> definitions = {"datasets": {}, "workloads": {"digits": {"dataset": None}, "peaks": {}}}
    >>> config = {"studies": ["sweep"], "sweep": study, "noise": study, **definitions}
    >>> found = used({**config, "variants": {"eager": {}, "gpu": {}}})
    >>> list(found), list(found["workloads"]), list(found["variants"])
    (['studies', 'sweep', 'datasets', 'workloads', 'variants'], ['digits'], ['eager'])
    """
    asked = [config[study] for study in config["studies"]]
    # The matrix has a baseline in the place of variants.
    variants = {v for of in asked for v in (*of.get("variants", ()), of.get("baseline"))}
    workloads = _named(config["workloads"], {name for of in asked for name in of["workloads"]})
    datasets = {of.get("dataset") for of in workloads.values()}
    return {
        **{
            key: value
            for key, value in config.items()
            if key in config["studies"] or key not in STUDIES
        },
        "datasets": _named(config["datasets"], datasets),
        "workloads": workloads,
        "variants": _named(config["variants"], variants),
    }


def _named(definitions: Mapping[str, Any], names: set[str | None]) -> dict[str, Any]:
    return {name: of for name, of in definitions.items() if name in names}


class _InFull(yaml.SafeDumper):
    """Writes a value again where it stands for the second time, as a reader expects it."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def as_yaml(config: Mapping[str, Any]) -> str:
    """Write settings for a reader."""
    return yaml.dump(dict(config), Dumper=_InFull, sort_keys=False, allow_unicode=True, width=88)
