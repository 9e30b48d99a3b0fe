"""What a small training is asked to do: the arguments of `training.train`."""

from pathlib import Path

import torch
import yaml

from twinrun.config.reference import SCHEMA
from twinrun.process.determinism import capture

HERE = str(Path(__file__).parent)
WORKLOAD = {
    "module": "small:Small",
    "data": "small:Points",
    "dataset": None,
    "hyperparameters": {"learning_rate": 0.1, "size": 70},
    "epochs": 3,
}
_SETTINGS = yaml.safe_load(SCHEMA.read_text())["properties"]["variants"]["additionalProperties"]
_DEFAULTS = {name: entry["default"] for name, entry in _SETTINGS["properties"].items()}
VARIANT = {**_DEFAULTS, "accelerator": "cpu", "deterministic": True}
FILES = {
    "weights": "weights.safetensors",
    "steps": "steps.csv",
    "epochs": "epochs.csv",
    "fingerprints": "fingerprints.npz",
    "predictions": "predictions.safetensors",
    "manifest": "run.json",
    "checksums": "SHA256SUMS",
}


def training(workload, variant, *, seed=1):
    return {
        "workload": workload,
        "variant": variant,
        "seed": seed,
        "dataset": None,
        "search_path": [HERE],
    }


def arguments(folder, workload, variant, *, seed=1, minutes=10):
    run = {
        "identity": {"workload": "small", "variant": "plain", "seed": seed, "repeat": 1},
        "training": training(workload, variant, seed=seed),
        "source_sha256": "5" * 64,
        "files": {name: str(folder / file) for name, file in FILES.items()},
        "imports": "",
        "checkpoints": f"{folder}-checkpoints",
        "checkpoint_minutes": minutes,
    }
    return {"run": run}


def state_of_this_process():
    """Give every switch and the state of every generator, none of them abbreviated."""
    switches = capture()
    generators = switches.pop("random")
    tensors = [generators.pop(name) for name in ("torch", "cuda", "mps")]
    return switches, generators, torch.utils._pytree.tree_map(torch.Tensor.tolist, tensors)
