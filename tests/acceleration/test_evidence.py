"""What a short training leaves for the proof of fast steps."""

from types import SimpleNamespace

import torch
from small import Small

from twinrun.acceleration.evidence import RATE, Recorder


def test_of_several_optimizers_each_has_its_state_and_its_rates():
    module = Small()
    parameters = list(module.parameters())
    optimizers = [
        torch.optim.SGD(
            [{"params": parameters[:1], "lr": 0.1}, {"params": parameters[1:], "lr": 0.2}]
        ),
        torch.optim.SGD(parameters, lr=0.3),
    ]
    trainer = SimpleNamespace(optimizers=optimizers, callbacks=[])
    recorder = Recorder()
    recorder.on_train_end(trainer, module)
    assert {n: v for n, v in recorder.evidence.numbers.items() if n.startswith(RATE)} == {
        f"{RATE}optimizer 1, group 1": 0.1,
        f"{RATE}optimizer 1, group 2": 0.2,
        f"{RATE}optimizer 2, group 1": 0.3,
    }
