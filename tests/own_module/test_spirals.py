"""The contract of workloads, put to the example."""

from pathlib import Path

import yaml
from workloads_contract import WorkloadContract

HERE = Path(__file__).parent


class TestSpirals(WorkloadContract):
    workload = yaml.safe_load((HERE / "config.yaml").read_text())["workloads"]["mine"]
    search_path = (str(HERE),)
