"""Data modules without a length, and of several loaders; and a module that reads all of them."""

import time

import torch
from pytorch_lightning.utilities.combined_loader import CombinedLoader
from small import Points, Small
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, default_collate

ROWS = 40


class Stream(IterableDataset):
    """Gives the same rows in each epoch."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets = inputs, targets

    def rows(self):
        return zip(self.inputs, self.targets, strict=True)

    def __iter__(self):
        return iter(list(self.rows()))


class Drawing(Stream):
    """Shuffles its rows by torch's own generator."""

    def __iter__(self):
        rows = list(self.rows())
        return iter([rows[i] for i in torch.randperm(len(rows)).tolist()])


class Continuing(Stream):
    """Goes on in each epoch where the last one ended, and says where it is."""

    def __init__(self, *columns):
        super().__init__(*columns)
        self.position = 0

    def __iter__(self):
        rows = list(self.rows())
        for _ in range(ROWS - 6):
            yield rows[self.position % len(rows)]
            self.position += 1

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]


class Silent(Continuing):
    """Says nothing of where it is."""

    state_dict = load_state_dict = None


class Listed(Silent):
    """And where it is lies in a list."""

    def __init__(self, *columns):
        self.place = [0]
        super().__init__(*columns)

    position = property(
        lambda self: self.place[0], lambda self, value: self.place.__setitem__(0, value)
    )


class Hidden(Silent):
    """And where it is lies where nobody looks: at an installed module."""

    position = property(
        lambda self: time.place,
        lambda self, value: setattr(time, "place", value),
    )


class Ending(Continuing):
    """Says at the end of an epoch that it has ended, and gives nothing from there."""

    def load_state_dict(self, state):
        self.__dict__.update(state, rows=lambda: ()) if state["position"] else None

    def __iter__(self):
        return super().__iter__() if list(self.rows()) else iter(())


class Replaying(DataLoader):
    """As torchdata's StatefulDataLoader: a loader that says where it is, and is told once."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.told = None

    def __iter__(self):
        if self.told is not None:
            self.dataset.position, self.told = self.told["place"], None
        return super().__iter__()

    def state_dict(self):
        return {"place": self.dataset.position}

    def load_state_dict(self, state):
        self.told = state


class Streams(Points):
    dataset, loader = Stream, DataLoader

    def _stream(self, size=ROWS, dataset=None):
        return (dataset or self.dataset)(self.inputs[:size], self.targets[:size])

    def train_dataloader(self):
        return self.loader(self._stream(), batch_size=8)

    def val_dataloader(self):
        return DataLoader(self._stream(dataset=Stream), batch_size=8)

    test_dataloader = predict_dataloader = val_dataloader


class DrawingStreams(Streams):
    dataset = Drawing


class ContinuingStreams(Streams):
    dataset = Continuing


class SilentStreams(Streams):
    dataset = Silent


class ListedStreams(Streams):
    dataset = Listed


class HiddenStreams(Streams):
    dataset = Hidden


class EndingStreams(Streams):
    dataset = Ending


class StatefulLoaders(Streams):
    dataset, loader = Silent, Replaying


class Telling(DataLoader):
    """As torchdata's StatefulDataLoader: says how far it is, and goes on there when it is told."""

    given = told = 0
    reads = 0

    def __iter__(self):
        order = torch.randperm(len(self.dataset), generator=torch.Generator().manual_seed(1))
        self.given, self.told = self.told, 0
        return self._batches(order)

    def _batches(self, order):
        for rows in order.split(self.batch_size)[self.given :]:
            self.given += 1
            type(self).reads += 1
            yield [column[rows] for column in self.dataset.tensors]

    def state_dict(self):
        return {"given": self.given % len(self)}

    def load_state_dict(self, state):
        self.told = state["given"]


class PassedOver(Streams):
    """Gives None in the place of some batches, the first of each epoch among them."""

    def train_dataloader(self):
        useless = (self.inputs[0], self.inputs[20])

        def collate(rows):
            if any(torch.equal(row, other) for row, _ in rows for other in useless):
                return None
            return default_collate(rows)

        rows = TensorDataset(self.inputs, self.targets)
        return DataLoader(rows, batch_size=8, collate_fn=collate)


class Batches:
    """No DataLoader at all: gives whole batches."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets = inputs, targets

    def __iter__(self):
        return zip(self.inputs.split(8), self.targets.split(8), strict=True)


class OwnLoaders(Points):
    def train_dataloader(self):
        return Batches(self.inputs, self.targets)


class Several(Streams):
    """A dictionary for training, lists for all else; one of each has no length."""

    def train_dataloader(self):
        return {"labelled": self._loader(shuffle=True), "unlabelled": super().train_dataloader()}

    def val_dataloader(self):
        return [self._loader(), super().val_dataloader()]

    test_dataloader = predict_dataloader = val_dataloader


class Combined(Points):
    mode = "min_size"

    def train_dataloader(self):
        short = DataLoader(list(zip(self.inputs[:30], self.targets, strict=False)), batch_size=8)
        return CombinedLoader([self._loader(shuffle=True), short], self.mode)


class MaxSize(Combined):
    mode = "max_size"


class Cycle(Combined):
    mode = "max_size_cycle"


class Empty(Streams):
    def _stream(self, size=ROWS, dataset=None):
        return Stream(self.inputs[:0], self.targets[:0])


class Blocks(Streams):
    def train_dataloader(self):
        class Never(IterableDataset):
            def __iter__(self):
                time.sleep(3600)

        return DataLoader(Never())


class FailsAtFirst(Streams):
    def train_dataloader(self):
        class Broken(IterableDataset):
            def __iter__(self):
                raise FileNotFoundError(2, "No such file or directory", "shard-0.tar")

        return DataLoader(Broken())


class Reads(Small):
    """Takes a batch of one loader or of several."""

    def _step(self, batch, name):
        several = batch.values() if isinstance(batch, dict) else batch
        parts = (
            [batch]
            if isinstance(batch[0] if not isinstance(batch, dict) else None, torch.Tensor)
            else several
        )
        losses = [(self(x) - y).square().mean() for x, y in (p for p in parts if p is not None)]
        loss = torch.stack(losses).sum()
        self.log(name, loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        self._step(batch, "val_loss")

    def test_step(self, batch, batch_idx, dataloader_idx=0):
        self._step(batch, "test_loss")

    def predict_step(self, batch, batch_idx, dataloader_idx=0):
        return {"value": self(batch[0]), "name": [f"row {i}" for i in range(len(batch[0]))]}
