"""What a rehearsal measures, for tests of what jobs ask for."""

MIB = 2**20


BASE = 400  # MiB of imports


def measured(
    parameters,
    *,
    optimizer=2,
    peak=None,
    batch=2**20,
    steps=100,
    precision="32-true",
    later=(0, 0),
    averages=0,
    workers=(0, 0, 0),
):
    """Give what a rehearsal measures of float32 parameters, with so many states of an optimizer."""
    size = 4 * parameters
    sizes = {"parameters": parameters, "parameters_bytes": size, "batch_bytes": batch}
    sizes |= zip(("loader_workers", "loader_batches", "worker_bytes"), workers, strict=True)
    sizes["optimizer_bytes"] = optimizer * size
    sizes["peak_memory_mb"] = peak or 450 + (2 + optimizer) * size // MIB
    sizes |= {"step_seconds": 0.01, "validation_seconds": 0.0, "validation_batches": 0}
    sizes |= dict.fromkeys(
        ("later_step_seconds", "later_validation_seconds", "later_evaluation_seconds")
    )
    sizes |= {"evaluation_seconds": 0.0, "evaluation_batches": 0, "threads": 1}
    gradients, states = later
    foreseen = {"precision": precision, "base_memory_mb": BASE}
    foreseen |= {"gradients_bytes": gradients, "optimizer_bytes": states}
    foreseen["callbacks_bytes"] = averages * size
    return {"sizes": sizes, "foreseen": foreseen, "steps_per_epoch": steps}
