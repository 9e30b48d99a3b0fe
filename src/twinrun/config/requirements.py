"""What a config requires of the gate and its studies cannot give, whatever is found."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence

from msgspec import convert

from twinrun.config import matrix_cells
from twinrun.config.definitions import Section, Variant
from twinrun.config.sound_part import SoundPart
from twinrun.config.timed_variants import untimed
from twinrun.wording import shown, suggestion


def contradictions(part: SoundPart) -> Iterator[str]:
    """Find requirements about what is not in the config, or can have no answer."""
    yield from _of_fingerprint_file(part.config)
    yield from _of_names(part)


def _of_fingerprint_file(config: Section) -> Iterator[str]:
    """Find a file of expected fingerprints that is none; it need not exist yet."""
    file = config["require"].get("fingerprint")
    if file is None or not os.path.exists(file):  # noqa: PTH110
        return
    key = "require.fingerprint"
    if not os.path.isfile(file):  # noqa: PTH113
        yield f"{key}: {shown(file)} is a folder; name a file, which need not exist yet"
        return
    try:
        with open(file, encoding="utf-8") as text:  # noqa: PTH123
            entries = json.load(text)
    except (OSError, ValueError) as error:
        entries, reason = None, f" ({error})"
    else:
        reason = ""
    if not isinstance(entries, list):
        yield (
            f"{key}: {shown(file)} is no file of expected fingerprints{reason}; name another, or "
            f"delete it and accept what is found (python -m twinrun.gate results/gate.json "
            f"--accept)"
        )


def _of_names(part: SoundPart) -> Iterator[str]:
    """Find requirements of studies, variants and cells that are not in the config."""
    config = part.config
    is_known = isinstance(config["reproducibility"], Mapping)
    if not is_known or part.is_wrong("studies") or part.is_wrong("reproducibility", "variants"):
        return
    repeated = config["reproducibility"]["variants"]
    # Of a name that does not exist it is said so: nobody knows what it means.
    if not {*repeated} <= {*config["variants"]}:
        return
    studies = {f"{variant}_pair": "reproducibility" for variant in repeated} | {
        "determinism_cost": "reproducibility",
        "fingerprint": "reproducibility",
        "resume": "resume",
        "contest": "contest",
        "matrix": "matrix",
    }
    for name, wanted in config["require"].items():
        if name.endswith("_pair") and name not in studies:
            variant = name.removesuffix("_pair")
            near = suggestion(variant, repeated)
            yield f"require.{name}: reproducibility.variants has no {variant}{near}"
        elif name not in studies:
            yield f"require.{name}: unknown key{suggestion(name, list(studies))}"
        elif studies[name] not in config["studies"]:
            yield f"require.{name}: needs the study {studies[name]}, add it to studies"
        elif name == "matrix" and not part.is_wrong("matrix"):
            known = [cell.name for cell in matrix_cells.cells(config["matrix"])]
            for index, cell in enumerate(wanted):
                if cell not in known:
                    near = suggestion(cell, known)
                    yield f"require.matrix.{index}: no cell is called {shown(cell)}{near}"
        elif name == "fingerprint" and not any(
            config["variants"][variant]["deterministic"] or part.is_wrong("variants", variant)
            for variant in repeated
        ):
            yield "require.fingerprint: no variant of reproducibility is deterministic"
        elif name == "determinism_cost":
            yield from _of_cost(part, repeated, wanted)
        elif name == "contest" and not part.is_wrong("contest"):
            yield from _of_contest(config["contest"], wanted)


def _of_contest(contest: Section, wanted: object) -> Iterator[str]:
    """Find why no contest can give an answer."""
    if _is_one(contest):
        yield (
            f"require.contest: {shown(wanted)} is no answer that one seed can give; name more "
            f"than contest.seeds: {shown(contest['seeds'])}"
        )
    if wanted == "not worse" and contest["margin"] is None:
        yield (
            "require.contest: 'not worse' needs contest.margin, the difference that you would put "
            "up with; without one it is what better is"
        )


def _is_one(study: Section) -> bool:
    return len(study["seeds"]) == 1


def _of_cost(part: SoundPart, repeated: Sequence[str], wanted: str) -> Iterator[str]:
    """Find why no timing can say on any machine what a variant costs, or no cost be the right."""
    key = "require.determinism_cost"
    sign, _, limit = wanted.partition(" ")
    if float(limit) == 0:
        which = "no" if sign.startswith("<") else "every"
        yield f"{key}: {shown(wanted)} holds of {which} ratio of times; 1.25 is a quarter more"
    if len(repeated) == 1:
        yield (
            f"{key}: is the ratio to the first variant of reproducibility, which has "
            f"{repeated[0]} alone; name another one beside it"
        )
    # Of a wrong variant nobody knows how it is trained.
    elif not any(part.is_wrong("variants", name) for name in repeated):
        variants = {n: convert(part.config["variants"][n], Variant) for n in repeated}
        for name, why in untimed(repeated, variants).items():
            yield f"{key}: {name} of reproducibility.variants has no time: {why}; leave it out"
            break
