"""What a run leaves, held to its checksums: one reader, one writer."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from twinrun import artifacts
from twinrun.errors import TwinrunError

CHECKSUMS = "SHA256SUMS"
# What readers of a run.json count on.
# fmt: off
RUN_KEYS = (
    "workload", "variant", "seed", "repeat", "settings.workload", "settings.variant",
    "environment.identity", "environment.context", "data", "source_sha256", "tensors",
    "weights_sha256", "steps", "metrics", "seconds.fit", "seconds.total", "peak_memory_mb", "ended",
)
TENSOR_KEYS = ("name", "kind", "shape", "dtype")
# fmt: on
FAILED = "failed: "  # how the end of a run begins that left nothing but its reason
FAILED_KEYS = ("workload", "variant", "seed", "repeat", "settings.workload", "metrics", "ended")

# What fingerprints.npz keeps tensor by tensor, or stream by stream, at every step, and which array
# names its columns.
PER_STEP = {
    "random": "stream_names",
    "random_after": "stream_names",
    "buffers": "buffer_names",
    "gradients": "names",
    "optimizer": "names",
    "parameters": "names",
}


def write_checksums(path: str | Path, files: Iterable[str | Path]) -> None:
    """Record the SHA-256 of files beside `path`; `sha256sum --check` reads it there."""
    artifacts.write_text(
        path, "".join(f"{artifacts.sha256(file)}  {Path(file).name}\n" for file in files)
    )


def read_run(run: str | Path, *names: str) -> dict[str, Any]:
    """Read the manifest of a run; it and files beside it must be as the run wrote them.

    Args:
        run: its run.json.
        names: of the files beside it that are to be read next.

    Raises:
        TwinrunError: for a file whose bytes are not those that the run wrote, or a manifest that
            lacks something.
    """
    run = Path(run)
    _check_hashes(run, names)
    manifest = artifacts.read_json(run)
    lacking = next(_lacking(manifest), None)
    if lacking is not None:
        raise corrupt(run, f"{lacking} is missing")
    return dict(manifest)


def corrupt(path: Path, what: str) -> TwinrunError:
    """Make the error that says what is wrong with a file of a run, and the cure."""
    return TwinrunError(f"{path} is corrupt ({what}): delete its folder and the run is made again")


def _check_hashes(run: Path, names: Iterable[str]) -> None:
    try:
        lines = run.with_name(CHECKSUMS).read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        lines = []
    recorded = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    for name in (run.name, *names):
        file = run.with_name(name)
        if not file.is_file():
            raise corrupt(file, "it is missing")
        if name not in recorded:
            raise corrupt(file, f"{CHECKSUMS} does not name it")
        if artifacts.sha256(file) != recorded[name]:
            raise corrupt(file, f"its sha256 is not the one in {CHECKSUMS}")


def _lacking(manifest: Any) -> Iterator[str]:
    """Name what a manifest should hold and does not, by dotted key."""
    if _has(manifest, "ended") and str(manifest["ended"]).startswith(FAILED):
        yield from (key for key in FAILED_KEYS if not _has(manifest, key))
        return
    yield from (key for key in RUN_KEYS if not _has(manifest, key))
    if manifest["data"] is not None and not _has(manifest, "data.sha256"):
        yield "data.sha256"
    for number, tensor in enumerate(manifest["tensors"]):
        yield from (f"tensors.{number}.{key}" for key in TENSOR_KEYS if not _has(tensor, key))


def _has(value: Any, dotted: str) -> bool:
    for key in dotted.split("."):
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True
