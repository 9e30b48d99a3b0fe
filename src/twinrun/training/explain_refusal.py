"""What a refusal of torch or Lightning in mid-training means in the terms of a config."""

from twinrun.errors import TwinrunError
from twinrun.training.remedies import WITHOUT_WORKERS
from twinrun.training.trainer_objects import blamed


def explain_refusal(error: Exception, variant: str) -> None:
    """Raise what a refusal of torch, or of a callback or logger, means here.

    Args:
        error: what the training ended with; of another one nothing is raised.
        variant: name of the training's.

    Raises:
        TwinrunError: with the key that helps.
    """
    text = str(error)
    if (owner := blamed(error)) is not None:
        raise TwinrunError(f"{owner} failed with {type(error).__name__}: {error}") from error
    if "conditioned on metric" in text:
        raise TwinrunError(
            f"variants.{variant}: a callback or a schedule needs what is not logged by then "
            f"({text.split('. ')[0]}): log it, or have it validated before, by the variant's "
            f"`validation` and the Trainer's `val_check_interval` and `check_val_every_n_epoch`"
        ) from error
    if "num_workers > 0" in text:
        raise TwinrunError(f"variants.{variant}.data_workers: {text}{WITHOUT_WORKERS}") from error
    if "not used in producing" in text:
        raise TwinrunError(
            f"variants.{variant}.devices: the module has parameters that the loss does not use, "
            f"in a step or at one of the workers, as where a layer is left out by chance "
            f"(LayerDrop, `if torch.rand(()) < p`): each worker draws random numbers of its own; "
            f"freeze those that it never uses (requires_grad_(False)), or train with devices: 1"
        ) from error
    if "more than 1 value per channel" in text:
        raise TwinrunError(
            f"variants.{variant}: batch normalisation was given a single sample, a mini-batch of "
            f"one or, of the last one, a worker's shard (devices) or a part (accumulate); drop the "
            f"last mini-batch (drop_last=True), or choose another batch_size, or fewer workers or "
            f"parts"
        ) from error
