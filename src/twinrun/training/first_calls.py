"""What a training owes to the first call of something, which a script's sanity check makes.

There with the global generators put back behind it, and with a batch of validation.
"""

from collections.abc import Iterator, Sequence

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.combined_loader import CombinedLoader
from torch.nn.parameter import is_lazy
from torch.utils.data import DataLoader

from twinrun.wording import some


def uninitialized(module: pl.LightningModule) -> list[str]:
    """Name the layers whose parameters or buffers their first call makes."""
    return [
        path
        for path, part in module.named_modules()
        if any(map(is_lazy, (*part.parameters(recurse=False), *part.buffers(recurse=False))))
    ]


def of_first_calls(module: pl.LightningModule, lazy: Sequence[str]) -> Iterator[str]:
    """Say which parts of a module go by their first calls.

    Args:
        module: as its first validation finds it.
        lazy: layers that were `uninitialized` as the training started.
    """
    if scripted := _scripted(module):
        yield (
            f"validation calls {some(scripted)}, which TorchScript compiles by what its first "
            f"calls are"
        )
    if lazy:
        yield f"the first call of {some(lazy)} makes its weights, by drawing them as a rule"


def of_loaders(trainer: pl.Trainer) -> Iterator[str]:
    """Say which loaders of validation draw once, where they first start their workers.

    One whose workers do not persist draws in each validation alike.
    """
    for loader in CombinedLoader(trainer.val_dataloaders, "sequential").flattened:
        if not isinstance(loader, DataLoader) or loader.generator is not None:
            continue
        if loader.persistent_workers and loader.num_workers > 0:
            yield (
                "a loader of val_dataloader with persistent_workers and no generator of its own "
                "draws from torch's global one as its workers first start, and later draws follow"
            )
            return


def _scripted(module: pl.LightningModule) -> list[str]:
    """Name the parts of a module that are compiled by TorchScript, but for those inside of such."""
    found: list[str] = []
    for path, part in module.named_modules():
        is_inside = any(path.startswith(f"{outer}.") for outer in found)
        if isinstance(part, torch.jit.ScriptModule) and not is_inside:
            found.append(path)
    return found
