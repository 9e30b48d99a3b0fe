"""Clean trainings on batches of many kinds: a data module for each, and a module that reads all."""

from collections import UserDict, namedtuple
from dataclasses import dataclass

import numpy as np
import torch
from faults import Base
from faults import Points as PlainPoints
from torch.utils.data import DataLoader


@dataclass
class Sample:
    inputs: torch.Tensor
    targets: torch.Tensor


class Encoding(UserDict):
    """As Hugging Face's BatchEncoding is: a mapping that is no dict, with an attribute."""


Pair = namedtuple("Pair", "inputs targets")


class Unknown:
    """An object that nobody can look into."""


def _stacked(found):
    return [torch.stack(column) for column in zip(*found, strict=True)]


def _encoding(found):
    inputs, targets = _stacked(found)
    made = Encoding(inputs=inputs, targets=targets)
    made.lengths = [len(inputs)]
    return made


def _detection(found):
    """Give lists of images of unlike sizes and of boxes, as detectors take them."""
    images = [torch.ones(3, 4 + int(row[0] > 0), 4) * row[0] for row, _ in found]
    boxes = [{"boxes": row.expand(1 + int(row[1] > 0), 4)} for row, _ in found]
    return images, boxes, *_stacked(found)


# What a batch is made of, by the name of its data module; `reading` takes inputs and targets of it.
KINDS = {
    "Lists": lambda found: [list(column) for column in zip(*found, strict=True)],
    "Samples": list,
    "Texts": lambda found: (
        [str(row.tolist()) for row, _ in found],
        *_stacked(found),
    ),
    "Encodings": _encoding,
    "Dataclasses": lambda found: Sample(*_stacked(found)),
    "NamedTuples": lambda found: Pair(*_stacked(found)),
    "Arrays": lambda found: {
        "inputs": _stacked(found)[0].numpy(),
        "targets": _stacked(found)[1].numpy(),
        "names": np.array([f"row {i}" for i in range(len(found))], dtype=object),
    },
    "Sparse": lambda found: (_stacked(found)[0].to_sparse(), _stacked(found)[1]),
    "Sets": lambda found: (*_stacked(found), {"a", "b", "c"}, None, 3, b"bytes"),
    "Detections": _detection,
    "Objects": lambda found: (*_stacked(found), Unknown()),
}


def reading(batch):
    """Return inputs and targets of a batch of any kind above."""
    if isinstance(batch, Encoding | dict):
        return tuple(torch.as_tensor(batch[name]) for name in ("inputs", "targets"))
    if isinstance(batch, Sample | Pair):
        return batch.inputs, batch.targets
    if isinstance(batch, list) and isinstance(batch[0], tuple):
        return tuple(_stacked(batch))
    if isinstance(batch[0], list) and isinstance(batch[1], list) and len(batch) == 2:
        return tuple(torch.stack(column) for column in batch)
    first, second, *_ = [part for part in batch if isinstance(part, torch.Tensor)]
    return first.to_dense(), second


class Reader(Base):
    def training_step(self, batch, batch_idx):
        return super().training_step(reading(batch), batch_idx)


class _Kind(PlainPoints):
    def train_dataloader(self):
        collate = KINDS[type(self).__name__]
        return DataLoader(self.dataset(), batch_size=8, shuffle=True, collate_fn=collate)


globals().update({name: type(name, (_Kind,), {"__module__": __name__}) for name in KINDS})
