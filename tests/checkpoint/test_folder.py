"""A checkpoint of several workers is there as a whole or not at all, whoever fails, and when."""

import errno
import shutil
import threading
from pathlib import Path

import pytest
import torch

from twinrun.checkpoint.folder import Folder
from twinrun.checkpoint.together import Alone
from twinrun.errors import TwinrunError

COUNT = 3


class InThreads(Alone):
    """A worker in a thread; all exchange by a list."""

    def __init__(self, rank, count, shared):
        self.rank, self.count = rank, count
        self._values, self._barrier = shared

    def everyones(self, value):
        self._values[self.rank] = value
        self._barrier.wait(20)
        found = list(self._values)
        self._barrier.wait(20)
        return found

    def first(self, value):
        return self.everyones(value)[0]


class Killed(BaseException):
    pass


def together(folder, act, count=COUNT, identity=None):
    """Have each worker act on its folder; return what each gave or raised, and what it said."""
    shared, found = ([None] * count, threading.Barrier(count)), [None] * count
    said = [[] for _ in range(count)]

    def work(rank):
        worker = InThreads(rank, count, shared)
        kept = Folder(folder, identity or {"rank": 0}, said[rank].append, worker)
        try:
            found[rank] = act(kept, rank)
        except (TwinrunError, OSError, Killed, threading.BrokenBarrierError) as error:
            found[rank] = error
            if isinstance(error, Killed):
                shared[1].abort()

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found, said


def write(name, failing=None, error=None):
    def act(folder, rank):
        def save(path):
            torch.save({"of": [name, rank]}, path)
            if rank == failing:
                raise error

        folder.write(name, save)
        folder.note_batch(f"batch {rank}")

    return act


def last(folder, rank):
    path = folder.last()
    return None if path is None else (torch.load(path, weights_only=True)["of"], folder.expected)


def assert_last(folder, name):
    found, said = together(folder, last)
    assert found == [([name, rank], f"batch {rank}") for rank in range(COUNT)]
    assert said == [[]] * COUNT


def test_each_worker_finds_its_own_part_of_the_last_checkpoint(tmp_path):
    together(tmp_path, write("epoch1.ckpt"))
    assert_last(tmp_path, "epoch1.ckpt")
    together(tmp_path, write("epoch2.ckpt"))
    assert_last(tmp_path, "epoch2.ckpt")
    assert len([*tmp_path.glob("*.ckpt")]) == COUNT


def test_a_checkpoint_of_a_name_that_is_in_use_takes_another_one(tmp_path):
    """Red before: between two renames the entry did not fit the file."""
    for _ in range(2):
        together(tmp_path, write("epoch1.ckpt"))
        assert_last(tmp_path, "epoch1.ckpt")
    assert {path.name for path in tmp_path.glob("*.ckpt")} == {
        *("epoch1-2.ckpt", "epoch1-2-worker2.ckpt", "epoch1-2-worker3.ckpt"),
    }


@pytest.mark.parametrize("failing", range(COUNT))
def test_what_one_worker_cannot_keep_is_refused_by_all(tmp_path, failing):
    together(tmp_path, write("epoch1.ckpt"))
    error = TwinrunError("it keeps a lock")
    found, _ = together(tmp_path, write("epoch2.ckpt", failing, error))
    where = f" (at worker {failing + 1})" if failing else ""
    assert [str(each) for each in found] == [f"it keeps a lock{where}"] * COUNT
    assert_last(tmp_path, "epoch1.ckpt")
    assert len([*tmp_path.glob("*.ckpt")]) == COUNT


@pytest.mark.parametrize("failing", [0, 2])
def test_a_full_disk_at_one_worker_leaves_the_checkpoint_before(tmp_path, failing):
    together(tmp_path, write("epoch1.ckpt"))
    error = OSError(errno.ENOSPC, "No space left on device")
    found, said = together(tmp_path, write("epoch2.ckpt", failing, error))
    assert found == [None] * COUNT
    assert all("No space left on device" in text for (text,) in said)
    assert_last(tmp_path, "epoch1.ckpt")
    assert len([*tmp_path.glob("*.ckpt")]) == COUNT


def test_an_older_checkpoint_that_cannot_be_removed_ends_no_training(tmp_path, monkeypatch):
    """Red before: the first worker's training ended, though a newer checkpoint was whole."""
    together(tmp_path, write("epoch1.ckpt"))

    def refused(path, **_):
        raise OSError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", refused)
    found, said = together(tmp_path, write("epoch2.ckpt"))
    monkeypatch.undo()
    assert (found, said) == ([None] * COUNT, [[]] * COUNT)
    assert_last(tmp_path, "epoch2.ckpt")
    together(tmp_path, write("epoch3.ckpt"))
    assert len([*tmp_path.glob("*.ckpt")]) == COUNT


@pytest.mark.parametrize("moment", ["before the entry", "behind the entry"])
def test_a_kill_leaves_the_one_checkpoint_or_the_other(tmp_path, monkeypatch, moment):
    together(tmp_path, write("epoch1.ckpt"))
    own = Folder._commit

    def commit(self, files):
        if moment == "behind the entry":
            own(self, files)
        raise Killed

    monkeypatch.setattr(Folder, "_commit", commit)
    together(tmp_path, write("epoch2.ckpt"))
    monkeypatch.undo()
    assert len([*tmp_path.glob("*.ckpt")]) == 2 * COUNT
    found, _ = together(tmp_path, last)
    whole = "epoch1.ckpt" if moment == "before the entry" else "epoch2.ckpt"
    assert [of for of, _ in found] == [[whole, rank] for rank in range(COUNT)]
    together(tmp_path, write("epoch3.ckpt"))
    assert_last(tmp_path, "epoch3.ckpt")
    assert len([*tmp_path.glob("*.ckpt")]) == COUNT


def test_a_kill_while_the_folder_is_removed_leaves_no_part_of_a_checkpoint_in_use(
    tmp_path, monkeypatch
):
    """Red before: of a folder whose trace had gone the checkpoint was used, and failed."""
    together(tmp_path, write("epoch1.ckpt"))

    def killed(path, **_):
        raise Killed

    monkeypatch.setattr(shutil, "rmtree", killed)
    found, _ = together(tmp_path, lambda kept, rank: kept.remove() if rank == 0 else None)
    assert isinstance(found[0], Killed)
    found, said = together(tmp_path, last)
    assert found == [None] * COUNT
    assert said == [[]] * COUNT


@pytest.mark.parametrize("corrupt", range(COUNT))
def test_a_file_that_one_worker_finds_corrupt_is_used_by_none(tmp_path, corrupt):
    together(tmp_path, write("epoch1.ckpt"))
    name = f"epoch1-worker{corrupt + 1}.ckpt" if corrupt else "epoch1.ckpt"
    file = tmp_path / name
    file.write_bytes(file.read_bytes()[:-1])
    found, said = together(tmp_path, last)
    assert found == [None] * COUNT
    where = f" (at worker {corrupt + 1})" if corrupt else ""
    assert said[0] == [
        f"{tmp_path / 'epoch1.ckpt'} is corrupt{where}: the training starts from its beginning"
    ]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_checkpoint_of_another_number_of_workers_is_not_used(tmp_path, count):
    together(tmp_path, write("epoch1.ckpt"))
    found, said = together(tmp_path, last, count=count)
    assert found == [None] * count
    assert "is of another number of workers" in said[0][0]


def test_settings_are_those_of_the_first_worker(tmp_path):
    """What tells workers apart is no other setting."""
    together(tmp_path, write("epoch1.ckpt"))
    found, _ = together(tmp_path, last, identity={"rank": 1})
    assert found == [None] * COUNT

    def of_rank(folder, rank):
        folder._identity = {"rank": rank}
        return last(folder, rank)

    found, _ = together(tmp_path, of_rank)
    assert None not in found
