"""Loaders of a library with a state that is one of an iterator, as torchdata's StatefulDataLoader.

Red before: to be asked, one began an iterator, and the steps drew other numbers than Lightning's;
told where its last one had ended, a validation went on there, in silence.
"""

import inspect

import pytest
import pytorch_lightning as pl
import torch
from resumed import fit
from small import Points, Restless
from torch.utils.data import DataLoader


class Counted(DataLoader):
    """Says how many batches its iterator gave; makes one to say it, as torchdata's does."""

    def __init__(self, *given, **options):
        super().__init__(*given, **options)
        self._iterator, self._given, self._to_skip = None, 0, 0

    def __iter__(self):
        iterator, self._iterator = self._iterator, None
        if iterator is None or self._given:
            iterator = super().__iter__()
        self._iterator, self._given = iterator, 0
        for number, batch in enumerate(iterator, start=1):
            self._given = number
            if number > self._to_skip:
                yield batch
        self._to_skip = 0

    def state_dict(self):
        if self._iterator is None:
            self._iterator = super().__iter__()
        return {"given": self._given}

    def load_state_dict(self, state):
        self._to_skip = state["given"]


@pytest.fixture
def loader(tmp_path, monkeypatch):
    """Have its class installed."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    used = "from torch.utils.data import DataLoader\n\n"
    (folder / "loaders_installed.py").write_text(used + inspect.getsource(Counted))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(__import__("sys").modules, "loaders_installed", raising=False)
    return __import__("loaders_installed").Counted


class Drops(Restless):
    """Draws in its steps what the making of an iterator would draw."""

    def training_step(self, batch, index):
        inputs, targets = batch
        return super().training_step((torch.dropout(inputs, 0.3, train=True), targets), index)


def loading(loader, *, trains):
    class Loaded(Points):
        def train_dataloader(self):
            plain = super().train_dataloader()
            kind = loader if trains else DataLoader
            return kind(plain.dataset, plain.batch_size, shuffle=True)

        def val_dataloader(self):
            plain = super().val_dataloader()
            return (DataLoader if trains else loader)(plain.dataset, 8)

    return Loaded


@pytest.mark.parametrize("trains", [True, False])
def test_to_ask_it_changes_no_training(tmp_path, loader, trains):
    data = loading(loader, trains=trains)
    pl.seed_everything(1, verbose=False)
    module = Drops()
    options = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    options |= {"accelerator": "cpu", "num_sanity_val_steps": 0, "max_epochs": 2}
    pl.Trainer(**options, enable_checkpointing=False).fit(module, data(size=70))
    (_, hashes, _), _, _ = fit(tmp_path / "seen", data=data, module=Drops)
    for name, value in module.named_parameters():
        assert hashes[name] == value.detach().numpy().tobytes(), name


@pytest.mark.parametrize("trains", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_a_resumed_training_begins_its_iterators_anew(tmp_path, loader, trains):
    told = {"data": loading(loader, trains=trains), "module": Drops, "limit_val_batches": 1}
    whole, _, _ = fit(tmp_path / "whole", max_epochs=4, **told)
    fit(tmp_path / "killed", kill=17, minutes=0, max_epochs=4, **told)
    found, at, said = fit(tmp_path / "killed", minutes=0, max_epochs=4, **told)
    assert (at, said, found == whole) == ([15], [], True)
