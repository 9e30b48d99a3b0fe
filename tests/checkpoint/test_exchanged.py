"""Which optimizers and schedules a training has, and what these do, may change under way."""

import pytest
import torch
from pytorch_lightning.callbacks import BackboneFinetuning
from resumed import fit
from small import Restless


class Exchanging(Restless):
    """Trains by phases: another one begins where its second epoch starts."""

    name, phase = "nothing", 0

    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, inputs):
        return super().forward(self.head(self.body(inputs)))

    def on_train_epoch_start(self):
        super().on_train_epoch_start()
        if self.current_epoch == 1:
            CHANGES[self.name][0](self)

    def configure_optimizers(self):
        part = self.head if self.name == "parameters" and self.phase else self.body
        groups = [{"params": part.parameters()}, {"params": self.output.parameters()}]
        optimizer = torch.optim.SGD(groups, lr=0.01, momentum=0.9)
        return [optimizer], [{"scheduler": self.schedule(optimizer), "interval": "step"}]

    def schedule(self, optimizer):
        if self.name == "class of a schedule" and self.phase:
            return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        if self.name == "function of a schedule":
            return torch.optim.lr_scheduler.LambdaLR(optimizer, halved_from(3 - self.phase))
        return torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)


def halved_from(first):
    return lambda step: 0.5 if step >= first else 1.0


def next_phase(module):
    module.phase = 1
    module.trainer.strategy.setup_optimizers(module.trainer)


def swapped(module):
    first, second = module.optimizers().param_groups
    first["params"], second["params"] = second["params"], first["params"]


def added(module):
    module.optimizers().add_param_group({"params": module.head.parameters()})


OTHERS = "SGD trains other parameters, or in another order, than where the training begins"
CHANGES = {
    "nothing": (next_phase, ""),
    "parameters": (next_phase, OTHERS),
    "order of groups": (swapped, OTHERS),
    "another group": (added, OTHERS),
    "class of a schedule": (next_phase, "StepLR is exchanged for another schedule"),
    "function of a schedule": (next_phase, "while the training runs, and no checkpoint holds it"),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CHANGES)
def test_what_is_exchanged_under_way_is_refused_by_name(tmp_path, monkeypatch, name):
    """Red before: a resumed training trained other layers by other rates, without a word."""
    monkeypatch.setattr(Exchanging, "name", name)
    *_, said = fit(tmp_path, module=Exchanging, max_epochs=4, minutes=0)
    assert len(said) == bool(CHANGES[name][1])
    assert CHANGES[name][1] in "".join(said)


class Backboned(Restless):
    def __init__(self):
        super().__init__()
        self.backbone = torch.nn.Linear(4, 4)

    def forward(self, inputs):
        return super().forward(self.backbone(inputs))

    def configure_optimizers(self):
        named = self.named_parameters()
        trained = [parameter for name, parameter in named if not name.startswith("backbone")]
        return torch.optim.SGD(trained, lr=0.05, momentum=0.9)


def test_groups_that_lightning_adds_again_are_no_reason(tmp_path):
    options = {"module": Backboned, "minutes": 0, "max_epochs": 4}
    for kill in (8, 13):
        callback = BackboneFinetuning(unfreeze_backbone_at_epoch=1)
        fit(tmp_path / "killed", kill=kill, callbacks=[callback], **options)
    callbacks = [BackboneFinetuning(unfreeze_backbone_at_epoch=1)]
    found, at, said = fit(tmp_path / "killed", callbacks=callbacks, **options)
    callbacks = [BackboneFinetuning(unfreeze_backbone_at_epoch=1)]
    whole, _, _ = fit(tmp_path / "whole", callbacks=callbacks, **options)
    assert (found, at, said) == (whole, [5, 10], [])
