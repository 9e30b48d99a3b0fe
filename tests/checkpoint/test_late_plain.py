"""Plain values and sets that reading data turns: a checkpoint holds them, or says why it does not.

Only two rows are read by most of them, which the first batch behind a checkpoint need not have.
"""

from functools import partial
from tempfile import mkdtemp

import late_data
import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from late_fitted import MovedByValidation, called, data_of, never_wrong
from late_records import DRAWN
from resumed import assert_resumed, every, fit
from small import Points
from torch.utils.data import DataLoader, Dataset, Sampler, Subset, TensorDataset

from twinrun.checkpoint.late_handles import handle_in
from twinrun.checkpoint.plain_values import bytes_of, made
from twinrun.checkpoint.set_uses import shows_order

AT_STARTS = {"minutes": 0, "module": MovedByValidation, "max_epochs": 5}


class Plain(late_data.Lazy):
    """Adds to rows what `state` says of them."""

    def begin(self):
        self.turned = False

    def __getitem__(self, index):
        return self.rows[index] + 0.1 * self.state(index), self.targets[index]


class Opens(Plain):
    """Makes its table where a flag says that it has none."""

    def state(self, index):
        if not self.turned:
            self.table = [0.1 * row for row in range(70)]
            self.turned = True
        return self.table[index]


class Warns(Plain):
    def state(self, index):
        if not self.turned and index == DRAWN[0]:
            self.turned = True
            return 5
        return 1


class Fits(Plain):
    """Sets numbers and a text where it is first read."""

    def begin(self):
        self.count, self.name, self.shape = 0, "", (0, 0.0)

    def state(self, index):
        if not self.name:
            self.count, self.name, self.shape = 4, f"row {index}", (index, 0.5)
        return self.count + len(self.name) + self.shape[0] * (index in DRAWN)


class Counts(Plain):
    """Counts all rows and cares in two."""

    def begin(self):
        self.count, self.mean = 0, 0.0

    def state(self, index):
        self.count += 1
        self.mean += 0.1 * (float(self.rows[index].sum()) - self.mean)
        return 0.1 * self.count + self.mean if index in DRAWN else 0


class Toggles(Plain):
    """Goes between a value and None."""

    def state(self, index):
        if index == DRAWN[0]:
            self.turned = None if self.turned is True else True
        return 1 if self.turned is None else 2 if self.turned else 3


class OfHelper:
    __slots__ = ("calls",)

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return 0.1 * self.calls


class InHelper(Plain):
    def begin(self):
        self.helper = OfHelper()

    def state(self, index):
        return self.helper() if index in DRAWN else 0


class Visited(Plain):
    """Notes rows in a set; a first visit is another one."""

    def begin(self):
        self.visited = set()

    def state(self, index):
        if index in self.visited:
            return 2
        self.visited.add(index)
        return 1 + 0.01 * len(self.visited)


KINDS = [Opens, Warns, Fits, Counts, Toggles, InHelper, Visited]
OFTEN = [Opens, Warns, Counts, Visited]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "kind",
    [k if k in OFTEN else pytest.param(k, marks=pytest.mark.exhaustive) for k in KINDS],
    ids=called(KINDS),
)
def test_what_reading_turns_is_resumed(tmp_path, kind):
    """Red before: no checkpoint."""
    options = {**AT_STARTS, "data": data_of(kind)}
    assert_resumed(tmp_path, [15], kills=[18], every_batches=9, **options)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "kind",
    [k if k in OFTEN else pytest.param(k, marks=pytest.mark.exhaustive) for k in KINDS],
    ids=called(KINDS),
)
def test_it_is_resumed_in_mid_epoch_too(tmp_path, kind):
    """Red before: no checkpoint."""
    options = {"data": data_of(kind), "module": MovedByValidation, "max_epochs": 4}
    assert_resumed(tmp_path, [3, 12], kills=[4, 13], **options)


def test_so_is_what_reading_turns_in_validation_data(tmp_path):
    """Red before: no checkpoint."""
    data = data_of(Warns, is_of_validation=True)
    assert_resumed(tmp_path, [15], kills=[18], every_batches=9, data=data, **AT_STARTS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_of_validation", [False, True], ids=["training", "validation"])
@pytest.mark.parametrize(("kill", "minutes"), [(4, 1000), (13, 1000), (18, 1000), (16, 0), (21, 0)])
@pytest.mark.parametrize("kind", KINDS, ids=called(KINDS))
def test_nor_is_it_ever_resumed_otherwise(tmp_path, kind, kill, minutes, is_of_validation):
    where = {"is_of_validation": is_of_validation, "minutes": minutes}
    assert never_wrong(tmp_path, kind, kill=kill, epochs=5, **where)


class CountsIterations(Sampler):
    """Counts how often it was begun, also by an iterator that nobody reads."""

    def __init__(self, data):
        self.size, self.turn = len(data), 0

    def __len__(self):
        return self.size + 3

    def __iter__(self):
        self.turn += 7
        return iter(torch.randperm(self.size).tolist() + [self.turn] * 3)


class Sampled(Points):
    def train_dataloader(self):
        return self._loader(sampler=CountsIterations(self.inputs))


def test_a_sampler_that_counts_its_epochs_is_resumed(tmp_path):
    """Red before: no checkpoint."""
    options = {**AT_STARTS, "data": Sampled}
    assert_resumed(tmp_path, [15], kills=[18], every_batches=9, **options)


class SkipsBad(Sampler):
    """Leaves out rows that a dataset has found bad."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return 70

    def __iter__(self):
        return (i for i in torch.randperm(70).tolist() if i not in self.rows.visited)


class FindsBad(Visited):
    def state(self, index):
        if index in DRAWN:
            self.visited.add(index)
        return float(index in DRAWN)


class Skipped(Points):
    def train_dataloader(self):
        rows = FindsBad(self)
        return DataLoader(rows, 16, sampler=SkipsBad(rows))


def test_a_set_of_bad_rows_is_resumed(tmp_path):
    """Red before: no checkpoint."""
    options = {**AT_STARTS, "data": Skipped}
    assert_resumed(tmp_path, [15], kills=[18], every_batches=9, **options)


# What stands for more than a checkpoint can hold.


class Handles(Plain):
    """Opens a file where a flag says so."""

    def state(self, index):
        if not self.turned:
            self.file = (self.folder / "rows.pt").open("rb")
            self.turned = True
        return float(self.file.closed)


class HandlesByNone(Handles):
    """As the refusal says."""

    def begin(self):
        self.file = None

    def state(self, index):
        if self.file is None:
            self.file = (self.folder / "rows.pt").open("rb")
        return float(self.file.closed)


class OpensAnother(Dataset):
    """Has the dataset that it wraps opened late, and reads it otherwise before that."""

    def __init__(self, data):
        self.dataset, self.opened = Handles(data), False

    def __len__(self):
        return 70

    def __getitem__(self, index):
        if not self.opened and index in DRAWN:
            self.opened = bool(self.dataset[index])
        return self.dataset[index] if self.opened else (torch.zeros(4), torch.zeros(1))


class ReadsOn(Plain):
    """Reads two rows from a file that is open from the first on, and counts them."""

    def begin(self):
        (self.folder / "lines").write_text("\n".join(map(str, range(100))), encoding="utf-8")
        self.file, self.lines = (self.folder / "lines").open(encoding="utf-8"), 0

    def state(self, index):
        if index not in DRAWN:
            return 0
        self.lines += 1
        return float(self.file.readline())


class OfTheProcess(Plain):
    def begin(self):
        self.path = ""

    def state(self, index):
        self.path = self.path or mkdtemp()
        return 0


class ToATensor(Plain):
    def begin(self):
        self.total = 0

    def state(self, index):
        self.total = self.total + torch.ones(())
        return float(self.total)


class Deletes(Plain):
    def state(self, index):
        if index == DRAWN[0]:
            vars(self).pop("turned", None)
        return float(hasattr(self, "turned"))


class SeesTheOrder(Plain):
    def begin(self):
        self.numbers = set()

    def state(self, index):
        self.numbers.add(index * 1_000_003 % 997)
        return 0.001 * next(iter(self.numbers)) if index in DRAWN else 0


class Masks(Plain):
    """Masks a row beside the flag that says so."""

    def begin(self):
        self.turned, self.table = False, np.ma.array(np.arange(70.0), mask=False)

    def state(self, index):
        if not self.turned and index == DRAWN[0]:
            self.table[3], self.turned = np.ma.masked, True
        return float(self.table.filled(7)[index])


BESIDE = "is not put back beside {}, that no checkpoint holds (where code asks whether that is None"
REFUSED = {
    Handles: ("Handles.turned", BESIDE.format("Handles.file")),
    OpensAnother: ("OpensAnother.opened", BESIDE.format("Handles.file")),
    ReadsOn: ("ReadsOn.lines", "is not put back beside ReadsOn.file (TextIOWrapper), whose place"),
    OfTheProcess: ("OfTheProcess.path", "it names what lies in the folder for temporary files"),
    ToATensor: ("ToATensor.total", ""),
    Masks: ("Masks.table", "changes while the training runs, and no checkpoint holds it"),
    Deletes: ("Deletes.turned", "is there before data are read, and is not any more"),
    SeesTheOrder: ("SeesTheOrder.numbers", "its data's `state_dict` and `load_state_dict` may"),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", REFUSED, ids=called(REFUSED))
def test_where_more_stands_behind_it_there_is_no_checkpoint(tmp_path, kind):
    name, why = REFUSED[kind]
    fit(tmp_path, data_of(kind), **{**AT_STARTS, "max_epochs": 3}, kill=12)
    assert not list(tmp_path.glob("*.ckpt"))
    said = (tmp_path / "refused.txt").read_text(encoding="utf-8")
    assert name in said
    assert why in said


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kill", "minutes"), [(4, 1000), (13, 1000), (16, 0), (21, 0)])
@pytest.mark.parametrize("kind", REFUSED, ids=called(REFUSED))
def test_nor_is_that_ever_resumed_otherwise(tmp_path, kind, kill, minutes):
    never_wrong(tmp_path, kind, kill=kill, minutes=minutes, epochs=5)


def test_a_handle_in_the_place_of_none_has_checkpoints(tmp_path):
    options = {**AT_STARTS, "data": data_of(HandlesByNone)}
    assert_resumed(tmp_path, [10], kills=[13], every_batches=9, **options)


def test_a_flag_is_turned_again_with_its_handle_where_the_first_epoch_is_read_again(tmp_path):
    """Red before: no checkpoint."""
    assert_resumed(tmp_path, [3], kills=[4], data=data_of(Handles))


class MovesLevel(pl.Callback):
    """Gives a sampler a level where a validation ends, or behind a step."""

    def __init__(self, *, is_in_epoch):
        self._is_in_epoch = is_in_epoch

    def on_train_batch_end(self, trainer, module, out, batch, batch_idx):
        if self._is_in_epoch and batch_idx == 1:
            trainer.train_dataloader.sampler.turn = int(1000 * float(out["loss"])) % 70

    def on_validation_end(self, trainer, module):
        if not self._is_in_epoch:
            loss = float(trainer.callback_metrics["val_loss"])
            trainer.train_dataloader.sampler.turn = int(1000 * loss) % 70

    def state_dict(self):
        return {}


class Levels(CountsIterations):
    def __iter__(self):
        for index in torch.randperm(self.size).tolist():
            yield (index + self.turn) % self.size
        yield from [self.turn] * 3


class Levelled(Points):
    def train_dataloader(self):
        return self._loader(sampler=Levels(self.inputs))


def test_what_a_callback_sets_between_epochs_is_resumed(tmp_path):
    """Red before: no checkpoint."""
    options = {**AT_STARTS, "data": Levelled, "callbacks": [MovesLevel(is_in_epoch=False)]}
    assert_resumed(tmp_path, [15], kills=[18], every_batches=9, **options)


def test_what_it_sets_between_batches_is_refused_in_mid_epoch_alone(tmp_path):
    options = {"data": Levelled, "callbacks": [MovesLevel(is_in_epoch=True)], "max_epochs": 4}
    _, _, said = fit(tmp_path, in_epoch=every(1), minutes=0, kill=18, **options)
    assert any("Levels.turn changes between the batches of an epoch" in each for each in said)
    assert [each.name for each in tmp_path.glob("*.ckpt")] == ["epoch3.ckpt"]


class MakesLoaders(Points):
    """Makes loaders anew of a number that reading has moved."""

    def setup(self, stage):
        self.rows = Counts(self)

    def train_dataloader(self):
        first = self.rows.count % 70
        return DataLoader(Subset(self.rows, [*range(first, 70), *range(first)]), 16, shuffle=True)


def test_of_loaders_that_are_made_anew_nothing_is_put_back(tmp_path):
    options = {**AT_STARTS, "data": MakesLoaders, "reload_dataloaders_every_n_epochs": 1}
    _, _, said = fit(tmp_path, **options)
    assert "Counts.count changes while the training runs" in said[0]


class Nothing(Plain):
    def begin(self):
        self.table = None

    def state(self, index):
        if self.table is None:
            self.table = [1.0] * 70
        return self.table[index]


def test_validation_data_of_a_data_module_are_resumed_before_they_were_read(tmp_path):
    """Red before: each resume ended, as they had been called otherwise."""
    data = data_of(Nothing, is_of_validation=True)
    assert_resumed(tmp_path, [3], kills=[4], data=data, max_epochs=3)


class CountsBegun(DataLoader):
    """Counts its iterators in a number that is there late."""

    def __iter__(self):
        self.begun = getattr(self, "begun", 0) + 1
        return super().__iter__()


class Begun(Points):
    def train_dataloader(self):
        return CountsBegun(TensorDataset(self.inputs, self.targets), 16, shuffle=True)


def test_a_checkpoint_whose_resume_would_end_is_given_up_where_that_is_seen(tmp_path):
    """Red before: it stayed in use, and the resumed attempt ended."""
    options = {**AT_STARTS, "data": Begun, "max_epochs": 3}
    fit(tmp_path, kill=8, **options)
    said = (tmp_path / "refused.txt").read_text(encoding="utf-8")
    assert "CountsBegun.begun has changed by the first mini-batch behind the last" in said
    _, resumed_at, _ = fit(tmp_path, **options)
    assert resumed_at == []


def test_plain_values_come_back_by_their_bits():
    values = {"1 A.x": float("nan"), "1 A.y": -0.0, "1 A.z": (1, "a", None, b"c"), "1 A.s": [2, 1]}
    found = made(bytes_of({**values, "1 A.t": True}))
    assert repr(found) == repr({**values, "1 A.t": True})
    assert bytes_of({}) is None
    assert made(None) == {}


@pytest.mark.parametrize(
    "code",
    [
        "self.ok = set(); self.ok |= {1}; self.ok.discard(2)",
        "if self.ok and not self.ok: len(self.ok)",
        "self.ok: set = set(rows); sorted(self.ok); hasattr(self, 'ok')",
        "while i in data.ok: pass",
    ],
)
def test_a_set_that_is_asked_for_members_shows_no_order(code):
    assert not shows_order(code, "ok")


@pytest.mark.parametrize(
    "code",
    [
        "list(self.ok)",
        "self.ok.pop()",
        "rows = self.ok",
        "self.ok = rows",
        "self.ok = self.bad = set()",
        "[i for i in self.ok]",
        "sorted(self.ok, key=f)",
        "return_ = self.ok or []",
        "self.ok - {1}",
        "getattr(self, 'ok')",
        "def f(self): return self.ok",
        "x = f'{self.ok}'",
        "add = self.ok.add",
    ],
)
def test_one_that_is_read_otherwise_may_show_it(code):
    assert shows_order(code, "ok")


class Hostile(type):
    def __getattribute__(cls, name):
        if name in ("read", "seek"):
            raise RuntimeError(name)
        return super().__getattribute__(name)


def test_what_cannot_be_asked_is_one_too():
    kind = Hostile("Reader", (), {"__module__": "tarfile"})
    assert handle_in(kind()) == "Reader"


def test_what_may_have_a_place_is_a_handle(tmp_path):
    with (tmp_path / "a").open("w") as file:
        of_file = [file.write, partial(print, file=file), lambda: file.tell(), (file,)]
        of_file += [lambda held=file: held.tell(), lambda *, held=file: held.tell()]
        for held in of_file:
            assert handle_in([1, {"a": held}]) == "TextIOWrapper"
    assert (
        handle_in(
            [
                tmp_path,
                torch.device("cpu"),
                torch.zeros(1),
                {"a": lambda: 1},
                Subset,
                late_data.Reader([]),
            ]
        )
        is None
    )
