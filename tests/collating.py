"""A workload whose samples are of several lengths, and how its batches are collated."""

import os

import torch
from small import Small
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from twinrun.config.definitions import Run
from twinrun.training.train import train


def collate(how, samples):
    lengths = torch.tensor([len(each) for each, _ in samples])
    inputs = [each for each, _ in samples]
    targets = torch.stack([target for _, target in samples])
    match how:
        case "padded":
            return pad_sequence(inputs, batch_first=True), lengths, targets
        case "time first":
            return torch.stack([each[:3] for each in inputs], dim=1), lengths, targets
        case "padded, time first":
            return pad_sequence(inputs), lengths, targets
        case "concatenated":
            return torch.cat(inputs), lengths, targets
        case "lists":
            return tuple(inputs), lengths, targets


class Collated(Small):
    """Looks at the sum of what a sample holds; the mean over the mini-batch is one of samples."""

    def __init__(self, how="padded", width=8, learning_rate=0.05):
        super().__init__(width, learning_rate)
        self.save_hyperparameters()

    def loader(self, **options):
        generator = torch.Generator().manual_seed(4)
        lengths = torch.randint(3, 9, (53,), generator=generator).tolist()
        inputs = [torch.randn(length, 4, generator=generator) for length in lengths]
        samples = [(each, each[:3].sum().reshape(1)) for each in inputs]
        how = self.hparams.how
        return DataLoader(samples, 12, collate_fn=lambda of: collate(how, of), **options)

    def train_dataloader(self):
        return self.loader(shuffle=True)

    val_dataloader = test_dataloader = predict_dataloader = loader

    def _step(self, batch, name):
        inputs, lengths, targets = batch
        dtype = self.hidden.weight.dtype
        match self.hparams.how:
            case "padded":
                sums = inputs.to(dtype).sum(1)
            case "concatenated":
                sums = torch.stack(
                    [each.to(dtype).sum(0) for each in inputs.split(lengths.tolist())]
                )
            case "lists":
                sums = torch.stack([each.to(dtype).sum(0) for each in inputs])
            case _:
                sums = inputs.to(dtype).sum(0)
        loss = (self(sums) - targets.to(dtype)).square().mean()
        self.log(name, loss, on_step=False, on_epoch=True)
        if name == "train_loss":
            self.log("both", loss, on_step=True, on_epoch=True)
        return loss

    def predict_step(self, batch, batch_idx):
        return batch[1]


def train_each(runs: list[Run]) -> None:
    """Train one after the other, each in a group of workers of its own."""
    environment = dict(os.environ)
    for number, run in enumerate(runs):
        os.environ.update(environment)  # Lightning takes its variables away where a fit ends
        if "TWINRUN_MEETING" in os.environ:
            os.environ["TWINRUN_MEETING"] += f"-{number}"
        train(run)
