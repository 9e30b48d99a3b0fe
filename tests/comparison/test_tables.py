"""Files that are not what their run wrote are named, and nothing is compared."""

import json

import numpy as np
import pytest
from comparing import compared
from example_runs import seal, write_run

from twinrun import run_files
from twinrun.errors import TwinrunError


def damage_file(path, damage):
    path.write_bytes(damage(path.read_bytes()))


def last_bit_flipped(content):
    return content[:-1] + bytes([content[-1] ^ 1])


def middle_bit_flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def cut(content):
    return content[:-3]


def emptied(content):
    return b""


def without_a_column(content):
    return b"\n".join(line.rpartition(b",")[0] for line in content.splitlines())


def without_a_line(content):
    return b"\n".join(content.splitlines()[:-1])


# What a comparison reads of a run, beside run.json.
FILES = (
    "weights.safetensors",
    "steps.csv",
    "epochs.csv",
    "fingerprints.npz",
    "predictions.safetensors",
)


def with_a_word(content):
    return content.replace(b"0.5,", b"much,")


@pytest.mark.parametrize("repeat", [1, 2])
@pytest.mark.parametrize("damage", [last_bit_flipped, middle_bit_flipped, cut, emptied])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_named_and_nothing_is_compared(tmp_path, name, damage, repeat):
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    damage_file(runs[repeat - 1].parent / name, damage)

    with pytest.raises(TwinrunError, match=rf"repeat{repeat}.{name} is corrupt .*sha256"):
        compared(tmp_path, *runs)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["repeat1", "repeat2"]


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(tmp_path, name):
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    (runs[1].parent / name).unlink()
    with pytest.raises(TwinrunError, match=rf"repeat2.{name} is corrupt \(it is missing\)"):
        compared(tmp_path, *runs)


@pytest.mark.parametrize(
    "damage", [cut, emptied, without_a_column, without_a_line, with_a_word, bytes.upper]
)
def test_damaged_steps_are_known_by_their_form(tmp_path, damage):
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    damage_file(runs[0].parent / "steps.csv", damage)
    seal(runs[0].parent)
    with pytest.raises(TwinrunError, match=r"repeat1.steps\.csv is corrupt.*delete its folder"):
        compared(tmp_path, *runs)


@pytest.mark.parametrize("missing", ["initial", "gradients", "parameters", "sample", "names"])
def test_damaged_fingerprints_are_known_by_their_form(tmp_path, missing):
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    path = runs[1].parent / "fingerprints.npz"
    with np.load(path) as file:
        np.savez(path, **{key: file[key] for key in file if key != missing})
    seal(path.parent)

    with pytest.raises(TwinrunError, match=r"repeat2.fingerprints\.npz is corrupt"):
        compared(tmp_path, *runs)


def test_fingerprints_of_other_steps_are_named(tmp_path):
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    short = write_run(tmp_path, 3, num_steps=5)
    (short.parent / "fingerprints.npz").replace(runs[0].parent / "fingerprints.npz")
    seal(runs[0].parent)

    with pytest.raises(TwinrunError, match=r"repeat1.fingerprints\.npz is corrupt.* 6"):
        compared(tmp_path, *runs)


@pytest.mark.parametrize("damage", [cut, emptied, lambda _: b"[]", lambda _: b"\xff"])
def test_a_damaged_manifest_is_named(tmp_path, damage):
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    damage_file(runs[1], damage)
    with pytest.raises(TwinrunError, match=r"repeat2.run\.json is corrupt"):
        compared(tmp_path, *runs)


@pytest.mark.parametrize(
    "missing", [*sorted(run_files.RunManifest.__required_keys__), "data.sha256"]
)
def test_a_manifest_that_lacks_something_is_named(tmp_path, missing):
    """A whole file, with its hash in order, that another version wrote."""
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    manifest = place = json.loads(runs[0].read_text())
    *path, last = missing.split(".")
    for key in path:
        place = place[int(key) if isinstance(place, list) else key]
    del place[last]
    runs[0].write_text(json.dumps(manifest))
    seal(runs[0].parent)
    with pytest.raises(
        TwinrunError, match=rf"repeat1.run\.json is corrupt \(.*missing required field `{last}`"
    ):
        compared(tmp_path, *runs)
