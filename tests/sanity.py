"""What the rehearsal says of a script's sanity check, and whether that trains otherwise."""

import copy

import pytorch_lightning as pl

from twinrun.training.sanity_check import SanityCheck


def notes_of(module, data, told=0, callbacks=()):
    notes = []
    trainer(told, [SanityCheck(notes), *callbacks]).fit(module, datamodule=data)
    return notes


def trainer(told, callbacks=(), epochs=1):
    return pl.Trainer(
        accelerator="cpu",
        max_epochs=epochs,
        num_sanity_val_steps=told,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[*callbacks],
    )


def weights_of(module, data, told, epochs=1):
    pl.seed_everything(1, verbose=False)
    module = copy.deepcopy(module)
    trainer(told, epochs=epochs).fit(module, datamodule=data)
    return {name: value.tolist() for name, value in module.state_dict().items()}
