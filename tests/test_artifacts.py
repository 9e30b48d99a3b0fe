"""Files are whole or absent, are what was written, and are data."""

import errno
import os
import pickle
import re
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TypedDict

import msgspec
import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
import torch
from stored import write_tensors

from twinrun import artifacts
from twinrun.config.params import discard_judgement
from twinrun.errors import TwinrunError


def tensors():
    return {
        "float64": torch.randn(2, 3, dtype=torch.float64),
        "float32": torch.randn(4),
        "float16": torch.randn(4).half(),
        "int64": torch.tensor(7),
        "int8": torch.tensor([-1, 1], dtype=torch.int8),
        "uint16": torch.tensor([1, 65535], dtype=torch.uint16),
        "uint64": torch.tensor([1], dtype=torch.uint64),
        "bool": torch.tensor([True, False]),
        "empty": torch.empty(0, 3),
        "transposed": torch.arange(6.0).reshape(2, 3).T,
    }


# Whole or absent


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")

    def fill_the_disk():
        with artifacts.atomic(path) as temporary:
            temporary.write_text("half of the n")
            raise OSError("no space left on disk")

    with pytest.raises(OSError, match="disk"):
        fill_the_disk()
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["table.csv"]


def test_a_file_appears_only_when_it_is_whole(tmp_path):
    path = tmp_path / "new" / "weights.safetensors"
    with artifacts.atomic(path) as temporary:
        temporary.write_bytes(b"first")
        assert not path.exists()
        assert temporary.parent == path.parent  # renaming is atomic within one file system only
        assert temporary.suffix == path.suffix
        assert temporary.name.startswith(".")  # hidden from a shell's patterns

    assert path.read_bytes() == b"first"
    assert [file.name for file in path.parent.iterdir()] == ["weights.safetensors"]


WRITERS = {
    "text": "artifacts.write_text(path, 'x' * 2**20)",
    "json": "artifacts.write_json(path, ['x'] * 2**18)",
    "csv": "artifacts.write_csv(path, pandas.DataFrame({'a': range(2**18)}))",
    "npz": "artifacts.write_arrays(path, {'a': numpy.random.default_rng(0).bytes(2**20)})",
    "safetensors": "write_tensors(path, {'a': torch.zeros(2**18)})",
}


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path):
    lines = "\n".join(f"attempt({kind!r}, lambda path: {w})" for kind, w in WRITERS.items())
    code = f"""
import resource, sys
import numpy, pandas, torch
from stored import write_tensors
from twinrun import artifacts
from twinrun.config.params import discard_judgement
from twinrun.errors import sentence_of

def attempt(kind, write):
    try:
        write(sys.argv[1] + "/file." + kind)
    except OSError as error:
        print(kind, sentence_of(error))

resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16))
{lines}
"""
    for kind in WRITERS:
        (tmp_path / f"file.{kind}").write_text("old")
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        check=True,
    )

    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert list(said) == list(WRITERS)
    # The limit's own error, and the file: red at ee70dd4, "while writing".
    assert said == {kind: f"File too large: {tmp_path}/file.{kind}" for kind in WRITERS}
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        f"file.{kind}": "old" for kind in WRITERS
    }


def test_a_read_only_folder_without_the_file_has_nothing_to_remove(tmp_path, monkeypatch):
    """Linux answers EROFS before ENOENT; red at ee70dd4, OSError at the start of a workflow."""
    monkeypatch.chdir(tmp_path)

    def refuse(path, *_, **__):
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    discard_judgement()
    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(OSError, match="Read-only file system") as raised:
        artifacts.write_text(tmp_path / "page.html", "x")
    assert raised.value.filename == str(tmp_path / "page.html")


def test_two_processes_that_write_one_file_do_not_meet(tmp_path):
    path = tmp_path / "seed1.json"
    code = "import sys; from twinrun import artifacts as a\nwith a.atomic(sys.argv[1]) as t: "
    code += "print(t, flush=True); t.write_text('theirs')"
    with artifacts.atomic(path) as ours:
        ours.write_text("ours")
        arguments = [sys.executable, "-c", code, str(path)]
        theirs = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
        assert path.read_text() == "theirs"
        assert theirs.strip() != str(ours)
    assert path.read_text() == "ours"


def test_every_kind_of_file_has_the_mode_that_others_can_read(tmp_path):
    old = os.umask(0o022)
    try:
        write_tensors(tmp_path / "t.safetensors", {"a": torch.ones(2)})
        artifacts.write_arrays(tmp_path / "a.npz", {"a": np.ones(2)})
        artifacts.write_json(tmp_path / "j.json", {})
        artifacts.write_csv(tmp_path / "c.csv", pd.DataFrame({"a": [1]}))
    finally:
        os.umask(old)
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o644}


# What was written


def test_tensors_come_back_bit_for_bit(tmp_path):
    written = tensors()
    write_tensors(tmp_path / "t.safetensors", written)

    read = artifacts.read_tensors(tmp_path / "t.safetensors")

    assert set(read) == set(written)
    for name, tensor in written.items():
        assert read[name].shape == tuple(tensor.shape)
        assert read[name].dtype == tensor.numpy().dtype
        assert read[name].tobytes() == np.ascontiguousarray(tensor.numpy()).tobytes()


def test_tensors_are_those_that_safetensors_reads(tmp_path):
    path = tmp_path / "t.safetensors"
    write_tensors(path, tensors())
    read, expected = artifacts.read_tensors(path), safetensors.numpy.load_file(path)
    assert set(read) == set(expected)
    for name, array in expected.items():
        assert (read[name].dtype, read[name].shape) == (array.dtype, array.shape)
        assert read[name].tobytes() == array.tobytes()


def test_nan_payloads_and_signed_zeros_come_back(tmp_path):
    bits = np.uint32([0x7FC00001, 0xFFC00002, 0x80000000, 0x7F800000])
    write_tensors(tmp_path / "t.safetensors", {"a": torch.from_numpy(bits.view("f4"))})
    read = artifacts.read_tensors(tmp_path / "t.safetensors")["a"]
    assert read.view(np.uint32).tolist() == bits.tolist()


def test_bfloat16_comes_as_its_bits(tmp_path):
    values = torch.tensor([1.0, -2.5, float("nan")], dtype=torch.bfloat16)
    write_tensors(tmp_path / "t.safetensors", {"a": values})
    read = artifacts.read_tensors(tmp_path / "t.safetensors")["a"]
    assert read.dtype == np.uint16
    assert read.tolist() == values.view(torch.uint16).tolist()


def test_tensors_that_share_memory_are_written_apart(tmp_path):
    whole = torch.arange(6.0)
    write_tensors(tmp_path / "t.safetensors", {"whole": whole, "part": whole[2:4]})
    read = artifacts.read_tensors(tmp_path / "t.safetensors")
    assert read["part"].tolist() == [2, 3]


def test_tensors_that_need_gradients_are_written(tmp_path):
    write_tensors(tmp_path / "t.safetensors", {"a": torch.nn.Parameter(torch.ones(2))})
    assert artifacts.read_tensors(tmp_path / "t.safetensors")["a"].tolist() == [1, 1]


def test_a_type_that_numpy_lacks_is_refused(tmp_path):
    values = torch.zeros(2).to(torch.float8_e4m3fn)
    write_tensors(tmp_path / "t.safetensors", {"layer.weight": values})
    with pytest.raises(TwinrunError, match=r"layer\.weight has the unsupported type F8_E4M3"):
        artifacts.read_tensors(tmp_path / "t.safetensors")


def test_arrays_and_tables_come_back(tmp_path):
    arrays = {"names": np.array(["a", "bb"]), "bits": np.array([[2**64 - 1]], dtype=np.uint64)}
    artifacts.write_arrays(tmp_path / "a.npz", arrays)
    read = artifacts.read_arrays(tmp_path / "a.npz")
    assert {name: array.tolist() for name, array in read.items()} == {
        "names": ["a", "bb"],
        "bits": [[2**64 - 1]],
    }
    assert read["bits"].dtype == np.uint64

    losses = np.random.default_rng(1).normal(size=100)
    artifacts.write_csv(tmp_path / "c.csv", pd.DataFrame({"loss": losses}))
    written = (tmp_path / "c.csv").read_text().splitlines()
    assert [float(line) for line in written[1:]] == losses.tolist()


def test_the_same_arrays_give_the_same_bytes_at_any_time(tmp_path):
    arrays = {"a": np.arange(100), "b": np.ones(3)}
    for name in ("first.npz", "second.npz"):
        artifacts.write_arrays(tmp_path / name, arrays)

    assert artifacts.sha256(tmp_path / "first.npz") == artifacts.sha256(tmp_path / "second.npz")
    with zipfile.ZipFile(tmp_path / "first.npz") as file:  # of the clock there is nothing in it
        assert {info.date_time[0] for info in file.infolist()} == {1980}


def test_json_keeps_its_order_and_its_numbers(tmp_path):
    value = {"z": 0.1 + 0.2, "a": [1, None, "é"], "loss": float("inf")}
    artifacts.write_json(tmp_path / "j.json", value)
    read = artifacts.read_json(tmp_path / "j.json")
    assert list(read.items()) == list(value.items())


def test_sha256_is_that_of_the_bytes(tmp_path):
    (tmp_path / "abc").write_bytes(b"abc")
    assert artifacts.sha256(tmp_path / "abc").startswith("ba7816bf8f01cfea414140de5dae2223")


# Damaged files and files that are no data


def flips(content):
    """Give copies, each with one bit flipped."""
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        yield bytes(damaged)


def cuts(content):
    """Give the beginnings."""
    return (content[:length] for length in range(0, len(content), 7))


@pytest.mark.parametrize("read", [artifacts.read_tensors, artifacts.read_json])
def test_a_damaged_file_is_read_or_named_but_never_breaks_the_reader(tmp_path, read):
    path = tmp_path / "file"
    if read is artifacts.read_tensors:
        write_tensors(path, {"a": torch.randn(3), "b": torch.zeros(2)})
    else:
        artifacts.write_json(path, {"a": [1.5, None], "b": "é"})
    whole = path.read_bytes()
    named = 0
    for damaged in [*flips(whole), *cuts(whole)]:
        path.write_bytes(damaged)
        try:
            read(path)
        except TwinrunError as error:
            assert str(path) in str(error)  # noqa: PT017, flips that make no invalid file are read
            named += 1
    assert named > len(whole) / 7


def test_numbers_are_read_as_they_were_written(tmp_path):
    """Red before with pandas 2.2: a third of them were a unit in the last place off."""
    draw = np.random.default_rng(1)
    values = np.append(draw.normal(size=2000) * 10.0 ** draw.integers(-300, 300, 2000), 0.8 - 0.75)
    artifacts.write_csv(tmp_path / "table.csv", pd.DataFrame({"loss": values}))
    found = artifacts.read_csv(tmp_path / "table.csv", ["loss"])["loss"]
    assert found.tolist() == values.tolist()


def test_a_damaged_table_is_read_or_named_but_never_breaks_the_reader(tmp_path):
    path = tmp_path / "table.csv"
    artifacts.write_csv(path, pd.DataFrame({"step": [1, 2], "name": ["a", "é,b"]}))
    whole = path.read_bytes()
    named = 0
    for damaged in [*flips(whole), *cuts(whole)]:
        path.write_bytes(damaged)
        try:
            artifacts.read_csv(path, ["step", "name"], types={"step": "int64"})
        except TwinrunError as error:
            assert str(path) in str(error)  # noqa: PT017, other digits are read
            named += 1
    assert named > len(whole) / 7


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "No columns"),
        (b"step,name\n1,\xff\n", "can't decode byte 0xff"),
        (b"step\n1\n", "it has no column name"),
        (b"step,name\n1,a\n1,a,b\n", "Expected 2 fields in line 3, saw 3"),
    ],
    ids=["empty", "no UTF-8", "another table", "a line too long"],
)
def test_what_is_no_table_is_named_with_its_cure(tmp_path, content, why):
    path = tmp_path / "steps.csv"
    path.write_bytes(content)
    with pytest.raises(TwinrunError) as raised:
        artifacts.read_csv(path, ["step", "name"])
    assert str(raised.value).startswith(f"{path} is corrupt (")
    assert why in str(raised.value)
    assert str(raised.value).endswith("delete it and it is made again")


def test_every_reader_of_tables_reads_them_here():
    """Two others have their own sentence; one reads what its own run wrote just before."""
    package = Path(artifacts.__file__).parent
    readers = {
        file.relative_to(package).as_posix()
        for file in package.rglob("*.py")
        if re.search(r"pd\.read_|csv\.(Dict)?[rR]eader", file.read_text(encoding="utf-8"))
    }
    others = {"comparison/tables.py", "verdicts/rows.py", "training/trial_metric.py"}
    assert readers == {"artifacts.py"} | others


@pytest.mark.parametrize("length", [0, 8, 60, -1])
def test_truncated_tensors_are_named(tmp_path, length):
    path = tmp_path / "t.safetensors"
    write_tensors(path, {"a": torch.randn(30)})
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(TwinrunError, match=r"t\.safetensors is corrupt"):
        artifacts.read_tensors(path)


def test_damaged_arrays_are_never_read_as_others(tmp_path):
    arrays = {"a": np.random.default_rng(0).normal(size=20), "b": np.arange(5)}
    path = tmp_path / "a.npz"
    artifacts.write_arrays(path, arrays)
    whole = path.read_bytes()
    for damaged in [*flips(whole), *cuts(whole)]:
        path.write_bytes(damaged)
        try:
            read = artifacts.read_arrays(path)
        except TwinrunError:
            continue
        for name, array in read.items():  # the directory of a zip file can lose a whole entry
            assert np.array_equal(array, arrays[name])


@pytest.mark.parametrize("name", ["object.npz", "pickle.npz"])
def test_a_pickle_is_never_executed(tmp_path, name):
    class Poison:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "executed"),)

    path = tmp_path / name
    if name == "object.npz":
        np.savez(path, a=np.array([Poison()], dtype=object))
    else:
        path.write_bytes(pickle.dumps(Poison()))

    for read in (artifacts.read_arrays, artifacts.read_tensors, artifacts.read_json):
        with pytest.raises(TwinrunError, match="is corrupt"):
            read(path)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("read", [artifacts.read_arrays, artifacts.read_tensors])
def test_a_missing_file_is_said_to_be_missing(tmp_path, read):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nothing")


# Records are what their type says


class Point(TypedDict):
    name: str
    height: float
    step: int | None


def test_a_record_comes_back_as_it_was_written_with_nan_and_numpys_floats(tmp_path):
    path = tmp_path / "point.json"
    point = Point(name="a", height=float(np.float64(0.1)), step=None)
    artifacts.write_record(path, [point, {**point, "height": np.float64(0.5)}], list[Point])
    assert artifacts.read_record(path, list[Point]) == [point, {**point, "height": 0.5}]
    artifacts.write_record(path, {**point, "height": float("nan")}, Point)
    assert np.isnan(artifacts.read_record(path, Point)["height"])


def test_a_key_that_the_type_does_not_name_is_neither_written_nor_read(tmp_path):
    path = tmp_path / "point.json"
    point = Point(name="a", height=1.5, step=3)
    artifacts.write_record(path, {**point, "colour": "red"}, Point)
    assert artifacts.read_json(path) == point
    artifacts.write_json(path, {**point, "colour": "red"})
    assert artifacts.read_record(path, Point) == point


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"height": "tall"}, r"\$\.height"), ({"step": 1.5}, r"\$\.step"), ({"name": None}, "str")],
)
def test_a_record_of_another_shape_is_neither_written_nor_read(tmp_path, wrong, message):
    path = tmp_path / "point.json"
    point = {"name": "a", "height": 1.5, "step": 3}
    with pytest.raises(msgspec.ValidationError, match=message):
        artifacts.write_record(path, point | wrong, Point)
    assert not path.exists()
    artifacts.write_json(path, point | wrong)
    with pytest.raises(TwinrunError, match=rf"point.json is corrupt \(.*{message}"):
        artifacts.read_record(path, Point)
    artifacts.write_json(path, {"name": "a", "height": 1.5})
    with pytest.raises(TwinrunError, match="missing required field `step`"):
        artifacts.read_record(path, Point)
