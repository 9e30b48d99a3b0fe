"""What a small training is asked to do: the arguments of `training.train`."""

from pathlib import Path

HERE = str(Path(__file__).parent)
WORKLOAD = {
    "module": "small:Small",
    "data": "small:Points",
    "dataset": None,
    "hyperparameters": {"learning_rate": 0.1, "size": 70},
    "epochs": 3,
}
VARIANT = {
    "accelerator": "cpu",
    "deterministic": True,
    "threads": 2,
    "data_workers": 0,
    "precision": "32-true",
    "devices": 1,
    "nodes": 1,
    "sharing": "canonical",
    "scale_batch_with_devices": False,
    "batch_norm": "joined",
    "compile": "none",
    "layout": "default",
    "optimizer": "default",
    "cuda_graph": False,
    "fill_uninitialized_memory": True,
    "persistent_workers": False,
    "accumulate": 1,
    "validation": True,
    "checkpointing": False,
    "logging": False,
    "environment": {},
    "stop": "none",
    "resume": "lightning",
}
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
        "checkpoints": f"{folder}-checkpoints",
        "checkpoint_minutes": minutes,
    }
    return {"run": run}
