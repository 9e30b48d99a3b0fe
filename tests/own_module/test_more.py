"""The contract of workloads, put to the modules of matrix.yaml."""

from pathlib import Path

import yaml
from workloads_contract import WorkloadContract

HERE = Path(__file__).parent
WORKLOADS = yaml.safe_load((HERE / "matrix.yaml").read_text())["workloads"]


class TestTwoOptimizers(WorkloadContract):
    """Manual optimization."""

    workload = WORKLOADS["drawer"] | {"hyperparameters": {}}
    search_path = (str(HERE),)


class TestFrozen(WorkloadContract):
    """A part that was trained before and is not trained now."""

    workload = WORKLOADS["frozen"] | {"hyperparameters": {}}
    search_path = (str(HERE),)

    def test_the_frozen_part_stays(self, dataset):
        _, before = self.make(dataset)
        after = self.train_steps(dataset, 1)
        for part in ("features.0.weight", "features.1.running_mean"):
            assert before.state_dict()[part].equal(after.state_dict()[part]), part
