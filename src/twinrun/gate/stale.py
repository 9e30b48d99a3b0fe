"""Are the code, data, versions and machine of the runs still the same?

Snakemake makes a run again when what it planned with has changed. It cannot plan with what only the
training process knows: modules imported under way, the machine, inherited variables. So the gate
looks once more at everything that each run recorded: the user's code, the data, versions and
machine.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from twinrun import artifacts
from twinrun.process.environment import (
    VARIABLE,
    planned_identity,
    present_gpus,
    present_identity,
    this_host,
)
from twinrun.process.imported_code import changed_since
from twinrun.process.launching import environment_of
from twinrun.run_files import left_network, read_ended, variant_of
from twinrun.run_records import RunManifest

MOST_NAMED = 8  # of more runs the rule is named, which makes all of them


def stale_reasons(runs: Iterable[str | Path], folder: Path) -> list[str]:
    """Say what has changed since runs were made, a sentence each; [] where nothing has.

    Args:
        runs: run.json of each.
        folder: the working directory that the paths in the manifests are relative to.
    """
    reasons: dict[str, tuple[str, list[str]]] = {}  # by what changed: how to say it, and of whom
    identity, gpus = present_identity(), present_gpus()
    versions = planned_identity()
    hashes: dict[str, str] = {}
    for run in runs:
        path = folder / run
        if not path.is_file():
            # Not corrupt: a run that was deleted is made again.
            reasons.setdefault("gone", ("", []))[1].append(str(run))
            continue
        ended = read_ended(path)
        if not left_network(ended):
            continue  # it left nothing that an answer could rest on
        for what, why in _changes(ended, folder, identity, gpus, versions, hashes):
            reasons.setdefault(what, (why, []))[1].append(str(run))
    said = [_said(why, named) for why, named in reasons.values()]
    # Once, of all together: what makes one of them again leaves the others as they are.
    if said:
        said[-1] += f" ({_remedy([run for _, named in reasons.values() for run in named])})"
    return said


def _said(why: str, runs: list[str]) -> str:
    *others, last = runs
    named = f"{', '.join(others)} and {last}" if others else last
    if not why:
        return f"{named} {'are' if others else 'is'} gone"
    return f"{why} since {named} {'were' if others else 'was'} made"


def _remedy(runs: list[str]) -> str:
    """Say what makes runs again: Snakemake alone makes none whose results are all there."""
    runs = list(dict.fromkeys(runs))
    made = "train" if len(runs) > MOST_NAMED else " ".join(runs)
    return f"make them again, with your --configfile: snakemake --cores all gate --forcerun {made}"


def _changes(
    manifest: RunManifest,
    folder: Path,
    identity: dict[str, str],
    gpus: Sequence[str],
    versions: Collection[str],
    hashes: dict[str, str],
) -> Iterable[tuple[str, str]]:
    """Yield what changed and how to say it."""
    for file in changed_since(manifest["code"], folder):
        yield file, f"{file} has changed"
    data = manifest["data"]
    if data is not None:
        path = folder / data["path"]
        # Hashed once: many runs rest on the same file.
        if data["path"] not in hashes:
            hashes[data["path"]] = artifacts.sha256(path) if path.is_file() else "gone"
        if hashes[data["path"]] != data["sha256"]:
            yield data["path"], f"{data['path']} has changed"
    environment = manifest["environment"]
    # Another host, such as a container's, excuses another machine and another shell, no versions.
    is_here = environment["context"]["host"] == this_host()
    gpu = environment["identity"].get("gpu", "none")
    gpus = gpus if is_here else ()
    # A machine may have several kinds, and torch adds to the name what part of one it was given:
    # NVIDIA A100-SXM4-40GB MIG 1g.5gb.
    if gpu != "none" and gpus and not any(gpu.startswith(name) for name in gpus):
        yield "gpu", f"gpu has become {' or '.join(gpus)}, from {gpu},"
    for key, value in identity.items():
        if key.startswith(VARIABLE) or (not is_here and key not in versions):
            continue
        # A run that saw no GPU recorded no driver, though the machine may have one.
        if key == "driver" and gpu == "none":
            continue
        recorded = environment["identity"].get(key)
        # What a run did not record cannot be said to have changed.
        if recorded not in (None, value):
            yield key, f"{key} has become {value}, from {recorded},"
    if is_here:
        yield from _changed_variables(manifest, identity)


def _changed_variables(
    manifest: RunManifest, identity: Mapping[str, str]
) -> Iterable[tuple[str, str]]:
    """Yield which inherited variables are others than the run's; one may be unset on either side.

    What a run sets for itself goes before what the shell has, which may then be anything.
    """
    recorded, variant = manifest["environment"]["identity"], variant_of(manifest)
    ours = environment_of(
        seed=manifest["seed"],
        deterministic=variant.deterministic,
        threads=variant.threads,
        further=variant.environment,
    )
    for key in sorted({*recorded, *identity}):
        if not key.startswith(VARIABLE) or key.removeprefix(VARIABLE) in ours:
            continue
        had, has = recorded.get(key, "unset"), identity.get(key, "unset")
        if had != has:
            yield key, f"{key} has become {has}, from {had},"
