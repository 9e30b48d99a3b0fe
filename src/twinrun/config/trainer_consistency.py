"""What no schema can say of what a workload tells the Trainer, and how many epochs it trains."""

from collections.abc import Iterator
from typing import Any

from twinrun.config.definitions import Section

# Lightning takes a part of the batches as a float, and their number as an integer.
IN_BATCHES = (
    *("val_check_interval", "limit_train_batches", "limit_val_batches", "limit_test_batches"),
    *("limit_predict_batches", "overfit_batches"),
)


def epochs_of(workload: Section) -> int | None:
    """Return the epochs of a workload, -1 for as many as `max_steps` takes; None if unsaid."""
    trainer = workload["trainer"]
    for said in (workload["epochs"], trainer["max_epochs"]):
        if said is not None:
            return said
    return None if trainer["max_steps"] == -1 else -1


def with_epochs(config: dict[str, Any]) -> dict[str, Any]:
    """Have every workload of a config say its epochs by the one name of them."""
    workloads = {
        name: {
            **workload,
            "epochs": epochs_of(workload),
            "trainer": {k: v for k, v in workload["trainer"].items() if k != "max_epochs"},
        }
        for name, workload in config["workloads"].items()
    }
    return {**config, "workloads": workloads}


def contradictions(name: str, workload: Section) -> Iterator[str]:
    """Find what a workload tells the Trainer that cannot be, or has no effect."""
    key = f"workloads.{name}"
    yield from (f"{key}.{problem}" for problem in _of_length(workload))
    if epochs_of(workload) is None:
        yield f"{key}: the key epochs is missing (or trainer.max_epochs, or trainer.max_steps)"
    yield from (f"{key}.trainer.{problem}" for problem in _of_arguments(workload["trainer"]))


def _of_length(workload: Section) -> Iterator[str]:
    trainer, epochs = workload["trainer"], epochs_of(workload)
    most, steps = trainer["max_epochs"], trainer["max_steps"]
    if most is not None and workload["epochs"] is not None:
        yield "trainer.max_epochs: is another name of epochs; leave one of the two out"
    for name in ("max_epochs", "max_steps"):
        if trainer[name] == 0:
            yield f"trainer.{name}: 0 trains nothing; -1 is no limit"
    if epochs == -1 and steps == -1:
        yield "trainer.max_epochs: -1 is no limit, so that max_steps must end the training"
    least = trainer["min_epochs"]
    if epochs is not None and least is not None and least > epochs > 0:
        yield f"trainer.min_epochs: {least} is more than the {epochs} of the training"
    least = trainer["min_steps"]
    if least is not None and least > steps > 0:
        yield f"trainer.min_steps: {least} is more than the {steps} of max_steps"


def _of_arguments(trainer: Section) -> Iterator[str]:
    if trainer["gradient_clip_algorithm"] and not trainer["gradient_clip_val"]:
        yield "gradient_clip_algorithm: has no effect without gradient_clip_val"
    for name in IN_BATCHES:
        value = trainer[name]
        if value is not None and value > 1 and value != int(value):
            yield f"{name}: {value} is no part of the batches, 0.0 to 1.0, and no number of them"
    if trainer["limit_train_batches"] == 0:
        yield "limit_train_batches: 0 trains nothing"
    interval = trainer["val_check_interval"]
    if interval == 0:
        yield "val_check_interval: 0 never comes; limit_val_batches: 0 validates nothing"
    if trainer["check_val_every_n_epoch"] is None and isinstance(interval, float):
        yield (
            f"val_check_interval: {interval} is a part of an epoch; with check_val_every_n_epoch: "
            f"null it must be a number of mini-batches"
        )
    if trainer["overfit_batches"]:
        for name in ("limit_train_batches", "limit_val_batches"):
            if trainer[name] is not None:
                yield f"{name}: has no effect beside overfit_batches, which sets it"
