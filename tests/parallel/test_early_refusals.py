"""What several workers do not train as one is refused where it shows."""

import pytest
from example_trainings import VARIANT, WORKLOAD, arguments

from twinrun.errors import TwinrunError
from twinrun.process.launching import environment_of, launch


def trained(folder, module):
    variant = {**VARIANT, "threads": 1, "devices": 2}
    hyperparameters = {**WORKLOAD["hyperparameters"], "steps_file": str(folder / "steps")}
    workload = {**WORKLOAD, "module": module, "hyperparameters": hyperparameters}
    launch(
        "twinrun.training.train:train",
        arguments(folder, workload, variant),
        environment_of(seed=1, deterministic=True, threads=1),
        workers=2,
    )


NOISE = r"of worker 2 is not that of worker 1 after step 1; each worker draws random numbers of"


@pytest.mark.exhaustive  # each trains two workers
@pytest.mark.parametrize(
    ("module", "said"),
    [
        # Red before: all three after the whole training, and the first two without their cause.
        ("refused_early:NoisyGradients", NOISE),
        pytest.param("refused_early:NoisySteps", NOISE, marks=pytest.mark.exhaustive),
        pytest.param("refused_early:NoisyWeights", NOISE, marks=pytest.mark.exhaustive),
        # Red before: without the cure.
        ("refused_early:ByHand", r"after step 1; .*say self\.manual_backward\(loss\)"),
        ("refused_early:ByItsLoss", r"nor a hook that goes by a shard's loss or batch"),
        ("refused_early:EndsEpochs", r"on_train_batch_start of EndsEpochs ends an epoch"),
    ],
)
def test_workers_that_are_not_one_are_refused_in_the_first_steps(tmp_path, module, said):
    with pytest.raises(TwinrunError, match=said):
        trained(tmp_path, module)
    assert int((tmp_path / "steps").read_text()) <= 2
