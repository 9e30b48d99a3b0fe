"""How code in another file than a module's comes to what a Trainer counts."""

import os

import torch.distributed as dist


def share(trainer):
    return 1 / trainer.num_training_batches


def by_text(trainer):
    return next(getattr(trainer, name) for name in ("val_check_batch", "max_steps"))


class Deep:
    def __init__(self, trainer):
        self.trainer = trainer

    def scale(self):
        return share(self.trainer)


def workers():
    return dist.get_world_size() if dist.is_initialized() else 1


def workers_by_environment():
    return int(os.environ.get("WORLD_SIZE", "1"))
