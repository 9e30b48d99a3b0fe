"""The files of a run as a training leaves them, made from plain tensors, with planted differences.

Without planting, all repeats are equal. Fingerprints are made up: they need not belong to the
tensors, so that what a comparison reads from them can be told from what it reads from the weights.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import torch
import xxhash
from example_trainings import VARIANT
from stored import write_tensors

from twinrun import artifacts, run_files, run_records
from twinrun.trace.fingerprints import fingerprint

STEPS_PER_EPOCH = 3
GENERATORS = ("python", "numpy", "torch")
OF_GENERATORS = ("random", "random_after")
OF_TENSORS = (*OF_GENERATORS, "buffers", "gradients", "optimizer", "parameters")
OF_WHOLE_STEPS = ("before", "buffers_before", "batch", "loss", "own_gradients")
NAMES = ("encoder.weight", "encoder.bias", "head.weight")
SECONDS = {
    "setup": 0.5,
    "fit": 1.0,
    "tracing": 0.0,
    "compiling": 0.0,
    "waited": 0.0,
    "others": 0.0,
    "total": 2.0,
    "epochs": [],
    "communication": [],
    "steps": [],
    "samples": [],
}
CONTEXT = {
    "host": "example",
    "kernel": "6.1",
    "cores": 2,
    "memory_gib": 7.8,
    "gpus": 0,
    "load_1min": 0.5,
    "commit": "abcdef012345",
    "started": "2026-01-02T03:04:05+00:00",
}
MANIFEST = {
    "workload": "denoiser",
    "variant": "deterministic",
    "seed": 1,
    "settings": {
        "workload": {
            "module": "m:M",
            "data": "m:D",
            "dataset": None,
            "hyperparameters": {"lr": 0.1},
            "epochs": 2,
        },
        "variant": VARIANT,
    },
    "environment": {
        "identity": {"python": "3.11.9", "torch": "2.13.0", "cpu": "Example CPU", "gpu": "none"},
        "context": CONTEXT,
        "packages": {},
    },
    "data": {"path": "results/data/digits.npz", "sha256": "d" * 64},
    "source_sha256": "c" * 64,
    "metrics": {},
    "not_evaluated": {},
    "evaluated_on": {"in_order": {}, "in_any_order": {}, "numbers": {}},
    "loaded": {"in_order": {}, "in_any_order": {}, "numbers": {}},
    "actual": None,
    "perturbation": 0,
    "perturbed": None,
    "departures": [],
    "code": {},
    "not_fingerprinted": [],
    "not_held": {},
    "no_result": None,
    "doubts": [],
    "epochs": 2,
    "whole_epochs": 2,
    "seconds": SECONDS,
    "compilation": None,
    "compiler_cache": None,
    "proof": None,
    "peak_memory_mb": 600,
    "resumed_at": [],
    "was_stopped": False,
    "not_resumed": None,
    "ended": "finished",
}


def example_parameters():
    return {
        name: torch.linspace(-1, 1, 12).reshape(3, 4) + number for number, name in enumerate(NAMES)
    }


def write_run(
    folder,
    repeat=1,
    *,
    parameters=None,
    buffers=None,
    num_steps=6,
    planted=(),
    losses=None,
    sample=None,
    samples=None,
    predictions=None,
    epochs=None,
    has_loss=True,
    began=None,
    changes=None,
):
    """Write a run; give the path of its run.json.

    planted: (step, quantity, tensor) whose fingerprints are this repeat's own; step 0 are the
    initial parameters, tensor is None for what has one fingerprint a step. Of a planted batch the
    samples are of this repeat alone too, unless `samples` says which they are.
    samples: (S, N) fingerprints of the samples of each step.
    losses: (S,). sample: (S, K) parameter elements after each step.
    predictions: tensors by name.
    epochs: columns of epochs.csv beside `epoch`.
    has_loss: whether the steps give a loss; what is None has the fingerprint 0.
    began: tensors by name that do not begin as they end; the others then do.
    changes: values of the manifest by dotted key.
    """
    folder = Path(folder) / f"repeat{repeat}"
    parameters = example_parameters() if parameters is None else parameters
    buffers = buffers or {}
    write_tensors(folder / "weights.safetensors", parameters | buffers)
    write_tensors(folder / "predictions.safetensors", predictions or {})
    logged = {"train_loss": [0.5, 0.25], "val_loss": [0.6, 0.3]} if epochs is None else epochs
    of_epochs = {"epoch": range(1, 1 + len(next(iter(logged.values()), [1, 2]))), **logged}
    artifacts.write_csv(folder / "epochs.csv", pd.DataFrame(of_epochs))
    names, size = list(parameters), (num_steps, len(parameters))
    arrays = {
        "names": np.array(names, dtype=np.str_),
        "initial": np.arange(len(names), dtype=np.uint64),
        "gradients": np.arange(np.prod(size), dtype=np.uint64).reshape(size),
        "optimizer": 500 + np.arange(np.prod(size), dtype=np.uint64).reshape(size),
        "parameters": 1000 + np.arange(np.prod(size), dtype=np.uint64).reshape(size),
        "buffer_names": np.array(list(buffers), dtype=np.str_),
        "initial_buffers": np.zeros(len(buffers), dtype=np.uint64),
        "buffers": np.zeros((num_steps, len(buffers)), dtype=np.uint64),
        "rng_state_names": np.array(GENERATORS, dtype=np.str_),
        **{key: np.zeros((num_steps, len(GENERATORS)), dtype=np.uint64) for key in OF_GENERATORS},
        "sample": np.ones((num_steps, 4)) if sample is None else np.array(sample, dtype=float),
    }
    if began is not None:
        for key, ends in (("initial", parameters), ("initial_buffers", buffers)):
            found = [fingerprint(began.get(name, end)) for name, end in ends.items()]
            arrays[key] = np.array(found, dtype=np.uint64)
    named = {**{key: list(GENERATORS) for key in OF_GENERATORS}, "buffers": list(buffers)}
    whole = {key: np.arange(num_steps, dtype=np.uint64) for key in OF_WHOLE_STEPS}
    if samples is None:
        samples = np.arange(num_steps * 4, dtype=np.uint64).reshape(num_steps, 4)
        for step, quantity, _ in planted:
            samples[step - 1] += np.uint64(5000 * repeat * (quantity == "batch"))
    for step, quantity, tensor in planted:
        if step == 0:
            arrays["initial"][names.index(tensor)] += 5000 + repeat
        elif tensor is None:
            whole[quantity][step - 1] += 5000 + repeat
        else:
            place = named.get(quantity, names).index(tensor)
            arrays[quantity][step - 1, place] += 5000 + repeat
    arrays["samples_of_steps"] = np.array(samples, dtype=np.uint64).reshape(-1)
    arrays["num_samples"] = np.full(num_steps, len(samples[0]) if num_steps else 0)
    artifacts.write_arrays(folder / "fingerprints.npz", arrays)
    table = pd.DataFrame(
        {
            "step": np.arange(1, num_steps + 1),
            "epoch": 1 + np.arange(num_steps) // STEPS_PER_EPOCH,
            "loss": np.linspace(1, 0.5, num_steps) if losses is None else losses,
            "loss_fingerprint": hashed(whole["loss"]) if has_loss else "0" * 16,
            **{key: hashed(whole[key]) for key in OF_WHOLE_STEPS if key != "loss"},
            "samples": hashed(np.sort(np.array(samples, dtype=np.uint64))),
            **{key: hashed(arrays[key]) for key in OF_TENSORS},
        }
    )
    artifacts.write_csv(folder / "steps.csv", table)
    kinds = {**dict.fromkeys(parameters, "parameter"), **dict.fromkeys(buffers, "buffer")}
    manifest = MANIFEST | {
        "repeat": repeat,
        "tensors": [
            {"name": n, "kind": kinds[n], "shape": list(t.shape), "dtype": str(t.dtype)[6:]}
            for n, t in (parameters | buffers).items()
        ],
        "weights_sha256": artifacts.sha256(folder / "weights.safetensors"),
        "steps": num_steps,
    }
    for key, value in (changes or {}).items():
        manifest = changed(manifest, key, value)
    artifacts.write_json(folder / "run.json", manifest)
    seal(folder)
    return folder / "run.json"


def thinned(run, traced, detailed=None):
    """Leave of a run's trace the steps that are traced alone; of `detailed` single tensors too."""
    steps = pd.read_csv(run.with_name("steps.csv"), dtype=str)
    is_kept = np.array([int(step) in traced for step in steps["step"]], dtype=bool)
    artifacts.write_csv(run.with_name("steps.csv"), steps[is_kept])
    file = run.with_name("fingerprints.npz")
    arrays = artifacts.read_arrays(file)
    numbers = 1 + np.flatnonzero(is_kept)
    sizes = arrays["num_samples"]
    of_samples = {
        "samples_of_steps": arrays["samples_of_steps"][np.repeat(is_kept, sizes)],
        "num_samples": sizes[is_kept],
    }
    keeps = numbers if detailed is None else np.array(detailed, dtype=np.int64)
    kept = {"detail_steps": keeps, **{key: arrays[key][keeps - 1] for key in OF_TENSORS}}
    sampled = {"sample_steps": keeps, "sample": arrays["sample"][keeps - 1]}
    artifacts.write_arrays(file, arrays | of_samples | kept | sampled)
    seal(run.parent)
    return run


def with_settings(run, names, *changes):
    """Give a run the settings of an optimizer: of each change the step, the name's index, value."""
    steps, settings, current = pd.read_csv(run.with_name("steps.csv"), dtype=str), [], {}
    for step in range(len(steps)):
        current |= {index: value for at, index, value in changes if at == step + 1}
        settings.append(fingerprint_of(current))
    artifacts.write_csv(run.with_name("steps.csv"), steps.assign(settings=settings))
    file = run.with_name("fingerprints.npz")
    found = {
        "setting_names": np.array(names, dtype=np.str_),
        "setting_changes": np.array([[at - 1, index] for at, index, _ in changes]),
        "setting_values": np.array([value for _, _, value in changes]),
    }
    artifacts.write_arrays(file, artifacts.read_arrays(file) | found)
    seal(run.parent)
    return run


def fingerprint_of(settings):
    return xxhash.xxh3_64_hexdigest(repr(sorted(settings.items())).encode())


def seal(folder):
    """Record the hashes of a run's files as they are now."""
    beside = (run_files.CHECKSUMS, "run.imports.jsonl")
    files = [file for file in folder.iterdir() if file.name not in beside]
    run_files.write_checksums(folder / run_files.CHECKSUMS, sorted(files))


def changed(mapping, key, value):
    """Copy a nested mapping with another value under a dotted key."""
    first, _, rest = key.partition(".")
    return mapping | {first: changed(mapping[first], rest, value) if rest else value}


def hashed(rows):
    return [xxhash.xxh3_64_hexdigest(row.tobytes()) for row in rows]


def write_manifest(run, manifest, *beside):
    """Write a run.json that tells what a test needs, and vouch for it and files beside it."""
    bare = {
        "seed": 1,
        "repeat": 1,
        "environment": {"identity": {}, "context": CONTEXT, "packages": {}},
        "data": None,
        "source_sha256": "b" * 64,
        "tensors": [{"name": "w", "kind": "parameter", "shape": [3], "dtype": "float32"}],
        "weights_sha256": "a" * 64,
        "steps": 3,
        "epochs": 1,
        "whole_epochs": 1,
        "metrics": {},
        "not_evaluated": {},
        "evaluated_on": {"in_order": {}, "in_any_order": {}, "numbers": {}},
        "loaded": {"in_order": {}, "in_any_order": {}, "numbers": {}},
        "actual": None,
        "perturbation": 0,
        "perturbed": None,
        "departures": [],
        "code": {},
        "not_fingerprinted": [],
        "not_held": {},
        "no_result": None,
        "doubts": [],
        "compilation": None,
        "compiler_cache": None,
        "proof": None,
        "peak_memory_mb": 100,
        "resumed_at": [],
        "was_stopped": False,
        "not_resumed": None,
        "ended": "finished",
    }
    settings = {
        key: MANIFEST["settings"][key] | manifest.get("settings", {}).get(key, {})
        for key in ("workload", "variant")
    }
    seconds = SECONDS | manifest.get("seconds", {})
    artifacts.write_json(run, bare | manifest | {"settings": settings, "seconds": seconds})
    run_files.write_checksums(run.with_name(run_files.CHECKSUMS), [run, *beside])


def fail(run, reason):
    """Make a run that was written one whose training failed."""
    manifest = artifacts.read_json(run)
    keys = ("workload", "variant", "seed", "repeat", "perturbation", "settings")
    ended = {"metrics": {}, "ended": f"{run_records.FAILED}{reason}"}
    for file in run.parent.iterdir():
        file.write_text("")
    artifacts.write_json(run, {key: manifest[key] for key in keys} | ended)
    seal(run.parent)
    return run
