"""What makes two runs a pair: the same workload, data, settings, code, versions and machine.

Runs that are no pair are not compared, and the reason names the first value that is not the same.
Repeats must share everything; of another variant or seed only what is computed and where.
"""

from collections.abc import Iterator, Mapping, Sequence

from twinrun.process.imported_code import other_distributions
from twinrun.process.read_files import is_changed_meanwhile, other_file
from twinrun.run_files import left_network
from twinrun.run_records import FailedRun, RunManifest, TensorEntry

HASH_DIGITS, SHOWN_DIGITS = 64, 12  # of a SHA-256


def why_no_pair(first: RunManifest, second: RunManifest, *, across: bool) -> str | None:
    """Say why two runs cannot be compared; None if they can.

    Args:
        first: run.json of a run.
        second: of another.
        across: whether they may be of two variants or seeds.
    """
    # Two runs of one variant are told apart by their repeats, others by their variants.
    key = "variant" if across else "repeat"
    for manifest in (first, second):
        if manifest["ended"] != "finished":
            return f"ended is {manifest['ended']!r} in {key} {manifest[key]}, not 'finished'"
        if written := _written(manifest):
            return f"{written} {key} {manifest[key]} trained on it: the runs are no pair"
    identities = [_identity(manifest, across=across) for manifest in (first, second)]
    unequal = next(_unequal(identities[0], identities[1]), None)
    if data := _other_data(first, second):
        return (
            f"{data} held something else as {key} {first[key]} read it than as {key} {second[key]} "
            f"did: the runs are no pair (--forcerun train makes both again)"
        )
    file = _other_code(first, second)
    if unequal is not None:
        path, left, right = unequal
        shown = [_shown(value) for value in (left, right)]
        found = f"{path} is {shown[0]} in {key} {first[key]} and {shown[1]} in {key} {second[key]}"
        found += _packages(path, first, second)
        # The last of an identity: of repeats all else is equal, but perhaps for the code.
        if across or not path.startswith("tensors."):
            return f"{found}: the runs are no pair"
        if file is None:
            return f"{found}: the training does not repeat, and these have no values to compare"
    if file is None:
        return None
    return (
        f"{file} is not the same code in {key} {first[key]} and {key} {second[key]}: the runs are "
        f"no pair"
    )


def other_conditions(manifests: Sequence[RunManifest | FailedRun]) -> str | None:
    """Name what runs of different workloads or variants do not share; None if all is.

    Their metrics are compared, not their bits: what is computed may differ, but not the data that
    they are tested on, as far as it is known, nor versions and machine.
    """
    finished = [found for found in manifests if left_network(found)]
    for found in finished:
        if written := _written(found):
            return f"{written} {found['workload']}/{found['variant']}/seed{found['seed']} trained"
    for found in finished[1:]:
        pair = (finished[0], found)
        identities = [_where(manifest) for manifest in pair]
        unequal = next(_unequal(identities[0], identities[1]), None)
        if unequal is not None:
            path, left, right = unequal
            runs = [f"{m['workload']}/{m['variant']}/seed{m['seed']}" for m in pair]
            said = f"{path} is {_shown(left)} in {runs[0]} and {_shown(right)} in {runs[1]}"
            return f"{said}{_packages(path, *pair)}"
        if data := _other_data(*pair):
            runs = [f"{m['workload']}/{m['variant']}/seed{m['seed']}" for m in pair]
            return f"{data} held something else as {runs[0]} read it than as {runs[1]} did"
    return None


def _packages(path: str, first: RunManifest, second: RunManifest) -> str:
    """Name the versions behind two hashes of what was installed; nothing of another value."""
    if path != "environment.distributions":
        return ""
    named = other_distributions(*(run["environment"]["packages"] for run in (first, second)))
    return f" ({named})" if named else ""


def _written(manifest: RunManifest | FailedRun) -> str | None:
    """Say that a run's data were written to meanwhile, up to the run's name; None if they were not.

    Which of its bytes the run had read by then, nobody knows.
    """
    if not left_network(manifest):
        return None
    data, read = manifest["data"], manifest["read_files"] if "read_files" in manifest else {}  # noqa: SIM401
    files = [data["path"]] if data is not None and "is_changed" in data else []
    files += [file for file, mark in read.items() if is_changed_meanwhile(mark)]
    return f"{min(files)} was written to while" if files else None


def _where(manifest: RunManifest) -> dict[str, object]:
    data, machine = manifest["data"], manifest["environment"]["identity"]
    return {
        "data": data and {"sha256": data["sha256"]},
        "environment": {key: value for key, value in machine.items() if key != "cpu_capability"},
    }


def _other_data(first: RunManifest, second: RunManifest) -> str | None:
    """Name a file that both have found by themselves and that held something else; None if none."""
    if "read_files" not in first or "read_files" not in second:
        return None
    return other_file(first["read_files"], second["read_files"])


def _other_code(first: RunManifest, second: RunManifest) -> str | None:
    """Name a file of the user's code that two runs imported in two versions; None if none.

    The planned hash does not know modules that are imported under way, nor an edit after planning.
    A module that only one of them has imported is no reason: another variant may need others, and
    what a training imports by chance is a difference to be found.
    """
    known = {entry["file"]: entry["sha256"] for entry in first["code"].values()}
    for entry in second["code"].values():
        if known.get(entry["file"], entry["sha256"]) != entry["sha256"]:
            return entry["file"]
    return None


def shape_of(tensor: TensorEntry) -> str:
    """Write the shape of a tensor of a manifest, such as 3x4; without dimensions it is `scalar`."""
    return "x".join(map(str, tensor["shape"])) or "scalar"


def _identity(manifest: RunManifest, *, across: bool) -> dict[str, object]:
    """Return what two runs must share to be a pair, as nested mappings of plain values."""
    data, settings = manifest["data"], manifest["settings"]
    machine = manifest["environment"]["identity"]
    if across:
        how: dict[str, object] = {"settings": {"workload": settings["workload"]}}
        # A variant's environment variables can choose the instruction set (ATEN_CPU_CAPABILITY):
        # it belongs to how the variant computes.
        machine = {key: value for key, value in machine.items() if key != "cpu_capability"}
    else:
        how = {"settings": settings, "variant": manifest["variant"], "seed": manifest["seed"]}
    return {
        "workload": manifest["workload"],
        **how,
        # Other steps would be compared, and a row of one run is not that of the other.
        "trace": settings["variant"].get("trace"),
        # The path may differ: the bytes are what was trained on.
        "data": data and {"sha256": data["sha256"]},
        "source_sha256": manifest["source_sha256"],
        "environment": machine,
        # What follows takes tensors by name and compares them element by element.
        "tensors": {
            tensor["name"]: f"{tensor['kind']} {tensor['dtype']} {shape_of(tensor)}"
            for tensor in manifest["tensors"]
        },
    }


def _shown(value: object) -> str:
    """Write a value for a reader; of a hash, which nobody reads to its end, the beginning.

    >>> _shown("ab" * 32), _shown("cpu")
    ("'abababababab...'", "'cpu'")
    """
    is_hash = isinstance(value, str) and len(value) == HASH_DIGITS and value.isalnum()
    return repr(f"{value[:SHOWN_DIGITS]}..." if is_hash and isinstance(value, str) else value)


def _unequal(left: object, right: object, path: str = "") -> Iterator[tuple[str, object, object]]:
    """Walk two nested mappings; yield the dotted key and both values wherever they differ."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in {**left, **right}:
            yield from _unequal(left.get(key), right.get(key), f"{path}.{key}".lstrip("."))
    elif repr(left) != repr(right):  # 1 and 1.0 are two settings, a NaN is the same one as itself
        yield path, left, right
