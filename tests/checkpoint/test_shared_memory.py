"""Numbers that data write into memory: a mapped file, what processes share, a storage of torch."""

import ctypes
import mmap
import multiprocessing
import struct

import late_data
import pytest
import torch
from late_fitted import MovedByValidation, data_of
from resumed import assert_resumed, fit

from twinrun.hidden_content import content_of

AT_STARTS = {"minutes": 0, "module": MovedByValidation, "max_epochs": 4}


class Mapped(late_data.Lazy):
    """Counts in memory that is mapped."""

    def begin(self):
        self.counts = mmap.mmap(-1, 70)

    def __getitem__(self, index):
        self.counts[index] += 1
        return self.rows[index] * self.counts[index], self.targets[index]


class MappedLate(Mapped):
    def begin(self):
        self.counts = None

    def __getitem__(self, index):
        if self.counts is None:
            super().begin()
        return super().__getitem__(index)


class ReadInTurn(late_data.Lazy):
    """Reads what is mapped from where it ended."""

    def begin(self):
        self.read = mmap.mmap(-1, 1 << 12)

    def __getitem__(self, index):
        self.read.read(1)
        return self.rows[index] * self.read.tell(), self.targets[index]


class OfC(Mapped):
    def begin(self):
        self.counts = (ctypes.c_int * 70)()


class Raw(Mapped):
    def begin(self):
        self.counts = multiprocessing.RawArray("i", 70)


class Stored(Mapped):
    def begin(self):
        self.counts = torch.zeros(70, dtype=torch.uint8).untyped_storage()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", [Mapped, ReadInTurn, OfC, Stored, MappedLate, Raw])
def test_what_data_write_into_memory_is_refused_by_name(tmp_path, kind):
    """Red before of what is mapped and of a storage: resumed in silence, to other bits."""
    _, _, said = fit(tmp_path, data_of(kind), **AT_STARTS)
    assert not list(tmp_path.glob("*.ckpt"))
    assert "changes while the training runs" in said[0]


class OnlyRead(late_data.Lazy):
    """Reads rows of a file that is mapped to be read alone, and one that it could write to."""

    def begin(self):
        path = self.folder / "numbers"
        path.write_bytes(struct.pack("70f", *range(70)))
        with path.open("r+b") as file:
            self.alone = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self.both = mmap.mmap(file.fileno(), 0)

    def __getitem__(self, index):
        self.alone.seek(4 * index)
        (first,), second = struct.unpack("f", self.alone.read(4)), self.both[4 * index]
        return self.rows[index] + 1e-3 * (first + second), self.targets[index]


def test_what_is_only_read_is_no_reason(tmp_path):
    data = data_of(OnlyRead)
    assert_resumed(tmp_path, [10], kills=[13], data=data, every_batches=9, **AT_STARTS)


def test_of_much_memory_a_part_is_looked_at():
    with mmap.mmap(-1, (1 << 27) + 3) as memory:
        before = content_of(memory)
        memory[5] = 1
        assert content_of(memory) != before
    assert content_of(memory) is None  # it is closed


def test_a_storage_without_memory_is_none():
    assert content_of(torch.empty(3, device="meta").untyped_storage()) is None
