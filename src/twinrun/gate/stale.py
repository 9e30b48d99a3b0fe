"""Are the code, data, versions and machine of the runs still the same?

Snakemake makes a run again when what it planned with has changed. It cannot plan with what only the
training process knows: modules imported under way. So the gate looks once more at everything that
each run recorded: the user's code, the data, versions and machine.
"""

from collections.abc import Iterable
from pathlib import Path

from twinrun import artifacts
from twinrun.process.environment import planned_identity, this_host
from twinrun.process.imported_code import changed_since
from twinrun.run_files import left_network, read_ended
from twinrun.run_records import RunManifest


def stale_reasons(runs: Iterable[str | Path], folder: Path) -> list[str]:
    """Say what has changed since runs were made, a sentence each; [] where nothing has.

    Args:
        runs: run.json of each.
        folder: the working directory that the paths in the manifests are relative to.
    """
    reasons: dict[str, str] = {}  # by what changed; the first run that rests on it is named
    identity = planned_identity(on_this_machine=True)
    hashes: dict[str, str] = {}
    for run in runs:
        path = folder / run
        if not path.is_file():
            # Not corrupt: a run that was deleted is made again.
            reasons.setdefault(str(run), f"{run} is gone")
            continue
        ended = read_ended(path)
        if not left_network(ended):
            continue  # it left nothing that an answer could rest on
        for what, why in _changes(ended, folder, identity, hashes):
            reasons.setdefault(what, f"{why} since {run} was made")
    return list(reasons.values())


def _changes(
    manifest: RunManifest,
    folder: Path,
    identity: dict[str, str],
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
    # What another machine made is compared with nothing of this one.
    if environment["context"].get("host") != this_host():
        return
    for key, value in identity.items():
        recorded = environment["identity"].get(key)
        # What a run did not record cannot be said to have changed.
        if recorded not in (None, value):
            yield key, f"{key} has become {value}, from {recorded},"
