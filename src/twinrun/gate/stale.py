"""Are the code, data, versions and machine of runs and timings still the same?

Snakemake makes a run again when what it planned with has changed. It cannot plan with what only the
training process knows: modules imported under way, the machine, inherited variables. So the gate
looks once more at everything that each of them recorded: the user's code (also what only another
worker, a forked data worker or a training that failed has imported, and the modules that lie beside
it: see `import_log`), the data, versions and machine; and at the files of each run that were
written to since.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twinrun import artifacts, dataset_files
from twinrun.errors import TwinrunError
from twinrun.process.environment import (
    VARIABLE,
    Environment,
    planned_identity,
    present_gpus,
    present_identity,
    this_host,
)
from twinrun.process.import_log import changed_by_others, lay_beside, log_of, logged, read_by
from twinrun.process.importable import modules_in
from twinrun.process.imported_code import (
    Imported,
    changed_since,
    distributions,
    other_distributions,
)
from twinrun.process.launching import environment_of
from twinrun.process.read_files import changed
from twinrun.process.read_notes import GONE
from twinrun.run_files import left_network, overwritten, read_ended, variant_of
from twinrun.run_records import DataEntry
from twinrun.timing import ratios, summary
from twinrun.timing.summary import Ratio
from twinrun.timing.without_effect import ratios_in_effect

MOST_NAMED = 8  # of more runs the rule is named, which makes all of them


@dataclass(frozen=True)
class _Recorded:
    """What a run or a timing has recorded of what it rests on."""

    code: Imported
    """The user's modules that it had imported."""
    beside: Mapping[str, Sequence[str]]
    """What lay beside them, by folder."""
    read: Mapping[str, str]
    """What files held that their code had found by itself."""
    data: DataEntry | None
    """The dataset; None where there was none, or a run on the same one says it."""
    environment: Environment | None
    """Versions, machine and variables; None for a training that failed."""
    ours: Collection[str]
    """The variables that it has set itself: the shell's go behind them."""


def stale_reasons(
    runs: Iterable[str | Path], folder: Path, timings: Iterable[str | Path] = ()
) -> list[str]:
    """Say what has changed since runs and timings were made, a sentence each; [] if nothing has.

    Args:
        runs: run.json of each.
        folder: the working directory that the paths in the manifests are relative to.
        timings: JSON of each.
    """
    reasons: dict[str, tuple[str, list[str]]] = {}  # by what changed: how to say it, and of whom
    identity, gpus = present_identity(), present_gpus()
    versions = planned_identity()
    hashes: dict[str, str] = {}
    modules = functools.cache(modules_in)  # of thousands of runs in the same folders
    for read, made in ((_of_run, runs), (_of_timing, timings)):
        for each in made:
            path = folder / each
            if not path.is_file():
                # Not corrupt: a run that was deleted is made again.
                reasons.setdefault("gone", ("", []))[1].append(str(each))
                continue
            recorded = read(path)
            changes = {
                **dict(_changes_beside(recorded, folder, modules)),
                **dict(_changes(recorded, folder, identity, gpus, versions, hashes)),
            }
            of_files = _overwritten if read is _of_run else _not_of_rounds
            changes |= {str(file): how for file, how in of_files(path, folder)}
            changes |= {file: f"{file} has changed" for file in changed_by_others(path, folder)}
            for what, why in changes.items():
                reasons.setdefault(what, (why, []))[1].append(str(each))
    said = [_said(why, named) for why, named in reasons.values()]
    # Once, of all together: what makes one of them again leaves the others as they are.
    if said:
        said[-1] += f" ({_remedy([each for _, named in reasons.values() for each in named])})"
    return said


def _of_run(path: Path) -> _Recorded:
    ended, code = read_ended(path), logged(path)
    others, files = lay_beside(path), read_by(path)
    if not left_network(ended):
        return _Recorded(code, others, files, None, None, ())  # with other code it may not fail
    variant = variant_of(ended)
    ours = environment_of(
        seed=ended["seed"],
        deterministic=variant.deterministic,
        threads=variant.threads,
        further=variant.environment,
    )
    code |= ended["code"]
    return _Recorded(code, others, files, ended["data"], ended["environment"], ours)


def _of_timing(path: Path) -> _Recorded:
    timing = summary.read(path)
    # As the rule starts it; a variant's own are not set in a process for several of them.
    ours = environment_of(seed=1, deterministic=False, threads=1)
    code = {**logged(path), **timing["code"]}
    return _Recorded(code, lay_beside(path), read_by(path), None, timing["environment"], ours)


def _overwritten(run: Path, folder: Path) -> Iterable[tuple[Path, str]]:
    """Yield which files of a run are not what it has written, and how to say it."""
    log = log_of(run)  # not under the checksums: it is written when all processes have ended
    for file in (*overwritten(run), *(() if log.is_file() else (log,))):
        yield file, f"{file.relative_to(folder)} {'has changed' if file.is_file() else 'is gone'}"


def _not_of_rounds(timing: Path, folder: Path) -> Iterable[tuple[Path, str]]:
    """Yield a timing whose ratios are not those of its rounds, and how to say it."""
    found, table = summary.read(timing), timing.with_suffix(".csv")
    name = table.relative_to(folder)
    if not table.is_file():
        if found["ratios"]:
            yield table, f"{name} is gone"
        return
    rounds = artifacts.read_csv(table, ["variant", "size", "phase", "round", "steps", "seconds"])
    made, _ = ratios_in_effect(
        ratios.ratios(rounds, found["baseline"], found["extents"]),
        found["had"],
        found["settings"]["variants"],
    )
    # Also one that the rounds have and the timing lacks.
    if _by_what(made) != _by_what(found["ratios"]):
        yield (
            table,
            f"{timing.relative_to(folder)}, or {name}, of whose rounds it is, has changed",
        )


def _by_what(found: Iterable[Ratio]) -> dict[tuple[str, int | None, str], Ratio]:
    return {(ratio["variant"], ratio["size"], ratio["phase"]): ratio for ratio in found}


def _said(why: str, runs: list[str]) -> str:
    *others, last = runs
    named = f"{', '.join(others)} and {last}" if others else last
    if not why:
        return f"{named} {'are' if others else 'is'} gone"
    return f"{why} since {named} {'were' if others else 'was'} made"


def _remedy(runs: list[str]) -> str:
    """Say what makes runs again: Snakemake alone makes none whose results are all there."""
    runs = list(dict.fromkeys(runs))
    made = " ".join(runs)
    if len(runs) > MOST_NAMED:
        is_timed = any(run.startswith("results/timings/") for run in runs)
        made = "train timing" if is_timed else "train"
    return f"make them again, with your --configfile: twinrun gate --forcerun {made}"


def _changes_beside(
    recorded: _Recorded, folder: Path, modules: Callable[[Path], Sequence[str]]
) -> Iterable[tuple[str, str]]:
    """Yield which modules are new or gone beside the imported ones, and how to say it."""
    of_data = {} if recorded.data is None else lay_beside(folder / recorded.data["path"])
    for where, names in (*recorded.beside.items(), *of_data.items()):
        now = modules(folder / where)
        for name in sorted({*now} ^ {*names}):
            path = str(Path(where, name))
            how = "come to lie" if name in now else "gone from"
            yield path, f"{path} has {how} beside imported modules"


def _changes(
    recorded: _Recorded,
    folder: Path,
    identity: dict[str, str],
    gpus: Sequence[str],
    versions: Collection[str],
    hashes: dict[str, str],
) -> Iterable[tuple[str, str]]:
    """Yield what changed and how to say it."""
    data, code, read = recorded.data, recorded.code, recorded.read
    if data is not None:  # of the function that made it
        code = {**logged(folder / data["path"]), **code}
        dataset = folder / data["path"]
        read = {**read_by(dataset), **read}
        for file in changed_by_others(dataset, folder):
            yield file, f"{file} has changed"
    for file in dict.fromkeys(changed_since(code, folder)):
        yield file, f"{file} has changed"
    for file, mark in changed(read, folder).items():
        yield file, f"{file} {'is gone' if mark == GONE else 'has changed'}"
    if data is not None:
        path = folder / data["path"]
        # Hashed once: many runs rest on the same file.
        if data["path"] not in hashes:
            hashes[data["path"]] = _hash_of(path)
        if hashes[data["path"]] != data["sha256"]:
            yield data["path"], f"{data['path']} has changed"
    environment = recorded.environment
    if environment is None:
        return
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
        had = environment["identity"].get(key)
        # What a run did not record cannot be said to have changed.
        if had is not None and had != value:
            yield key, _become(key, had, value, environment["packages"])
    if is_here:
        yield from _changed_variables(environment, recorded.ours, identity)


def _become(key: str, had: str, value: str, packages: Mapping[str, str]) -> str:
    if key == "distributions" and (named := other_distributions(packages, distributions())):
        return f"what is installed has changed ({named})"
    return f"{key} has become {value}, from {had},"


def _hash_of(data: Path) -> str:
    """Return the hash of a file or folder; why there is none, where it is gone or broken."""
    try:
        return dataset_files.sha256(data)
    except (OSError, TwinrunError) as error:
        return f"none ({error})"


def _changed_variables(
    environment: Environment, ours: Collection[str], identity: Mapping[str, str]
) -> Iterable[tuple[str, str]]:
    """Yield which inherited variables are others than then; one may be unset on either side.

    What a run sets for itself goes before what the shell has, which may then be anything.
    """
    before = environment["identity"]
    for key in sorted({*before, *identity}):
        if not key.startswith(VARIABLE) or key.removeprefix(VARIABLE) in ours:
            continue
        had, has = before.get(key, "unset"), identity.get(key, "unset")
        if had != has:
            yield key, f"{key} has become {has}, from {had},"
