"""What the making of loaders sets, where they are made anew for epochs: another one each time.

A resumed training makes it likewise, as it makes its loaders.
"""

import pytorch_lightning as pl

from twinrun.checkpoint.followed_names import stored_behind

_MAKERS = ("train_dataloader", "val_dataloader")


class MadeAnew:
    """Knows it by the code of the module and its data module."""

    def __init__(self, trainer: pl.Trainer) -> None:
        """Read that code, if loaders are made anew."""
        self.is_any = vars(trainer)["reload_dataloaders_every_n_epochs"] > 0
        """Whether they are."""
        self._stored, self._inside = set[str](), set[str]()
        self._may_be_all = False
        owners = (trainer.lightning_module, vars(trainer).get("datamodule"))
        for maker in _MAKERS if self.is_any else ():
            stored = stored_behind(owners, maker)
            if stored is None:
                self._may_be_all = True
            else:
                self._stored |= stored.attributes
                self._inside |= stored.attributes | stored.inside

    def may_exchange(self, name: str, *, is_inside: bool) -> bool:
        """Say whether making loaders may put another object there.

        Args:
            name: of an attribute of the data module.
            is_inside: whether it is asked of what lies in the attribute, not of it.
        """
        names = self._inside if is_inside else self._stored
        return self._may_be_all or name in names
