"""A results folder as a run of the workflow leaves it, made in milliseconds from plain arrays.

`write_results` writes runs, comparisons, timings, a dataset and verdicts for two workloads: the
nondeterministic pair of each differs by planted amounts, the deterministic one is equal.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from example_runs import CONTEXT, SECONDS, seal
from example_timings import write_summary
from example_trainings import VARIANT, WORKLOAD
from safetensors.numpy import save_file

from twinrun import artifacts
from twinrun.comparison.locate import OPERATION_COLUMNS
from twinrun.comparison.pair_records import write_comparisons, write_locations
from twinrun.config.trainer_arguments import TrainerArguments
from twinrun.figures.datasets import contact_sheet
from twinrun.figures.growth import growth
from twinrun.figures.operations import operations
from twinrun.figures.pairs import first_layer, layers
from twinrun.figures.predictions import strip
from twinrun.figures.timings import cost
from twinrun.figures.training import curves
from twinrun.report.page import write_report
from twinrun.verdicts.rows import write_rows

TEMPLATES = Path(__file__).parents[1] / "workflow/report"
VARIANTS = ["nondeterministic", "deterministic"]
SHAPES = {
    "denoiser": {
        "encoder.0.weight": (8, 1, 3, 3),
        "encoder.0.bias": (8,),
        "encoder.3.weight": (16, 8, 3, 3),
        "encoder.3.bias": (16,),
        "head.weight": (1, 8, 1, 1),
    },
    "factorization": {
        "user_factors": (2000, 16),
        "item_factors": (1000, 16),
        "user_biases": (2000,),
    },
}
STEPS, EPOCHS = 95, 5
IMAGES = ["noisy", "denoised", "clean"]
BY_ANGLE = {"images": "train_images", "rows": "train_labels", "columns": "train_angles"}
ENVIRONMENT = {
    "identity": {
        "python": "3.11.9",
        "torch": "2.13.0+cpu",
        "cpu": "Example CPU @ 2.1 GHz",
        "gpu": "none",
    },
    "context": CONTEXT,
    "packages": {"torch": "2.13.0+cpu"},
}

ACTUAL = {
    "threads": 2,
    "interop_threads": 1,
    "warn_only": False,
    "deterministic": True,
    "matmul_precision": "highest",
    "accelerator": "cpu",
    "devices": 1,
    "precision": "32-true",
    "accumulate": 1,
    "gathers_gradients": False,
    "data_workers": [0],
    "persistent_workers": False,
    "validation": True,
    "fill_uninitialized_memory": True,
    "optimizer": ["for-loop (SGD)"],
    "layout": [],
    "batch_norm": "none",
    "checkpointing": False,
    "logging": False,
    "variables": {"PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "2", "MKL_CBWR": "COMPATIBLE"},
}


def write_run(
    results: Path,
    tensors: dict[str, np.ndarray],
    *,
    workload: str,
    variant: str,
    seed: int = 1,
    repeat: int = 1,
    images: bool = False,
) -> Path:
    """Write a run's files; give the path of its run.json."""
    folder = results / f"runs/{workload}/{variant}/seed{seed}/repeat{repeat}"
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "weights.safetensors")
    epochs = np.arange(1, EPOCHS + 1)
    losses = {"train_loss": 0.2 / epochs, "val_loss": 0.25 / epochs, "val_psnr": 10 + 2.0 * epochs}
    artifacts.write_csv(folder / "epochs.csv", pd.DataFrame({"epoch": epochs, **losses}))
    steps = np.arange(1, STEPS + 1)
    of_steps = {"step": steps, "epoch": 1 + (steps - 1) * EPOCHS // STEPS, "loss": 0.2 / steps}
    artifacts.write_csv(folder / "steps.csv", pd.DataFrame(of_steps))
    save_file(example_predictions() if images else {}, folder / "predictions.safetensors")
    manifest = {
        "workload": workload,
        "variant": variant,
        "seed": seed,
        "repeat": repeat,
        "settings": {
            "workload": WORKLOAD | {"dataset": "digits", "epochs": EPOCHS},
            "variant": VARIANT | {"threads": 2},
        },
        "environment": ENVIRONMENT,
        "data": {"path": "results/data/digits.npz", "sha256": "d" * 64},
        "source_sha256": "c" * 64,
        "tensors": [
            {"name": n, "kind": "parameter", "shape": list(t.shape), "dtype": "float32"}
            for n, t in tensors.items()
        ],
        "weights_sha256": artifacts.sha256(folder / "weights.safetensors"),
        "steps": STEPS,
        "epochs": EPOCHS,
        "whole_epochs": EPOCHS,
        "metrics": {"test_psnr_noisy": 18.21, "test_psnr_denoised": 21.93},
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
        "seconds": SECONDS | {"setup": 0.4, "fit": 9.1 + repeat, "total": 10.2 + repeat},
        "compilation": None,
        "compiler_cache": None,
        "proof": None,
        "peak_memory_mb": 610 + repeat,
        "resumed_at": [],
        "was_stopped": False,
        "not_resumed": None,
        "ended": "finished",
    }
    artifacts.write_json(folder / "run.json", manifest)
    seal(folder)
    return folder / "run.json"


def example_predictions() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(3)
    rows, columns = np.mgrid[:32, :32]
    clean = np.stack([np.hypot(rows - 16, columns - 16) < 4 + i % 9 for i in range(20)])
    clean = clean[:, None].astype(np.float32)
    noisy = np.where(generator.random(clean.shape) < 0.05, 1 - clean, clean).astype(np.float32)
    return {"noisy": noisy, "denoised": (0.3 * noisy + 0.7 * clean), "clean": clean}


def initial_tensors(workload: str) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(len(workload))
    return {
        name: generator.normal(0, 0.1, shape).astype(np.float32)
        for name, shape in SHAPES[workload].items()
    }


def with_differences(tensors: dict[str, np.ndarray], size: float = 1e-6) -> dict[str, np.ndarray]:
    """Give tensors of which nearly every element is a little off."""
    generator = np.random.default_rng(7)
    return {
        name: tensor + (size * generator.normal(size=tensor.shape)).astype(np.float32)
        for name, tensor in tensors.items()
    }


def write_comparison(
    results: Path,
    first: dict[str, np.ndarray],
    second: dict[str, np.ndarray],
    *,
    workload: str,
    variant: str,
    seeds: Iterable[int] = (1,),
) -> Path:
    """Write the comparisons of some seeds from the tensors of two runs; give their JSON's path."""
    path = results / f"comparisons/reproducibility/{workload}/{variant}.json"
    rows = [_tensor_row(name, first[name], second[name]) for name in first]
    differing = [row for row in rows if not row["equal"]]
    is_equal = not differing
    place = {
        "repeat": 2,
        "step": 3,
        "epoch": 1,
        "quantity": "gradients",
        "cause": "backward",
        "tensor": next(iter(first)),
    }
    summaries = [
        {
            "workload": workload,
            "variant": variant,
            "against": None,
            "seed": seed,
            "answer": "equal" if is_equal else "differs",
            "reason": None,
            "repeats": 2,
            "steps": STEPS,
            "parameters": {
                "tensors": len(rows),
                "elements": sum(row["elements"] for row in rows),
                "tensors_differing": len(differing),
                "elements_differing": sum(row["elements_differing"] for row in rows),
            },
            "buffers": dict.fromkeys(
                ["tensors", "elements", "tensors_differing", "elements_differing"], 0
            ),
            "max_abs": max(row["max_abs"] for row in rows),
            "max_ulp": max(row["max_ulp"] for row in rows),
            "relative_l2": max(row["relative_l2"] for row in rows),
            "first_difference": None if is_equal else place,
            "logged": {
                "answer": "equal",
                "compared": 15,
                "differing": 0,
                "measured": "0 of 15 values differ",
            },
            "metrics": None,
            "predictions": None,
            "resumed_at": [[], []],
            "compiler_cache": None,
            "is_untrained": False,
            "non_finite_loss": [None, None],
            "non_finite_parameters": [0, 0],
            "not_fingerprinted": [],
            "not_held": {},
            "departures": [],
            "same_as_seeds": [],
            "runs": [
                f"results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}" for repeat in (1, 2)
            ],
        }
        for seed in seeds
    ]
    tensors = pd.concat([pd.DataFrame(rows).assign(seed=seed) for seed in seeds])
    steps = pd.concat([_step_rows(is_equal, seed).assign(seed=seed) for seed in seeds])
    write_comparisons(path, summaries)
    artifacts.write_csv(path.with_suffix(".tensors.csv"), tensors)
    artifacts.write_csv(path.with_suffix(".steps.csv"), steps)
    return path


def write_location(comparisons: Path) -> Path:
    """Write where the pairs of some comparisons part; give the path of its JSON."""
    summaries = artifacts.read_json(comparisons)
    names = {key: summaries[0][key] for key in ("workload", "variant")}
    results = comparisons.parents[3]
    path = results / "locations" / comparisons.relative_to(results / "comparisons")
    locations, rows = [], []
    for summary in summaries:
        first, seed = summary["first_difference"], {"seed": summary["seed"]}
        rows += [seed | _operation(position) for position in range(1, 31)] if first else []
        op = {
            "position": 20,
            "phase": "backward",
            "module": "",
            "op": "aten::index_put",
            "call": 1,
            "parameter": first and first["tensor"],
            "source": "model.py:12",
            "draws": False,
            "differs_in": "outputs",
        }
        locations.append(
            {
                **names,
                **seed,
                "answer": "located" if first else "equal",
                "cause": "backward" if first else None,
                "step": first and first["step"],
                "op": op if first else None,
                "likely": None,
                "others": [],
                "repeats": 20,
                "differed": 17 if first else 0,
                "fired": 17 if first else 0,
                "suspect": None,
                "sentence": "aten::index_put gave other values from equal inputs.",
            }
        )
    table = pd.DataFrame(rows).reindex(columns=OPERATION_COLUMNS)
    artifacts.write_csv(path.with_suffix(".operations.csv"), table)
    write_locations(path, locations)
    return path


def _operation(position: int) -> dict[str, Any]:
    phase = "forward" if position <= 10 else "backward" if position <= 22 else "optimizer"
    is_equal = position < 20 or (position % 5 == 0 and position > 20)
    size = np.nan if is_equal else 1e-8 * position
    return {"position": position, "phase": phase, "outputs_equal": is_equal, "relative_l2": size}


def _tensor_row(name: str, first: np.ndarray, second: np.ndarray) -> dict[str, Any]:
    differing = int((first.view(np.uint32) != second.view(np.uint32)).sum())
    apart = second.astype(np.float64) - first
    return {
        "repeat": 2,
        "tensor": name,
        "kind": "parameter",
        "shape": "x".join(map(str, first.shape)),
        "dtype": "float32",
        "elements": first.size,
        "elements_differing": differing,
        "share": differing / first.size,
        "max_abs": float(np.abs(apart).max()),
        "max_ulp": int(np.abs(first.view(np.int32).astype(np.int64) - second.view(np.int32)).max()),
        "relative_l2": float(np.linalg.norm(apart) / np.linalg.norm(first)),
        "equal": differing == 0,
    }


def _step_rows(is_equal: bool, seed: int) -> pd.DataFrame:
    steps = np.arange(1, STEPS + 1)
    apart = np.zeros(STEPS) if is_equal else np.where(steps < 3, 0, 1e-8 * seed * steps**1.2)
    return pd.DataFrame(
        {
            "repeat": 2,
            "step": steps,
            "epoch": 1 + (steps - 1) // 19,
            "batch_equal": True,
            "loss_equal": apart == 0,
            "gradients_equal": apart == 0,
            "parameters_equal": apart == 0,
            "loss_difference": apart / 10,
            "relative_l2": apart,
        }
    )


def write_timing(results: Path, *, workload: str, ratio: float = 1.08) -> Path:
    """Write a timing of the two variants; give the path of its JSON."""
    name = f"determinism_{workload}"
    generator = np.random.default_rng(5)
    rows = [
        {
            "timing": name,
            "workload": workload,
            "variant": variant,
            "device": "cpu",
            "size": "",
            "phase": phase,
            "round": index,
            "steps": 5 if phase == "train" else 1,
            "seconds": 0.4 * scale * generator.uniform(0.95, 1.1),
        }
        for variant, scale in zip(VARIANTS, [1, ratio], strict=True)
        for phase, rounds in (("first_call", 1), ("train", 12))
        for index in range(1, rounds + 1)
    ]
    changes = {
        "timing": name,
        "workload": workload,
        "baseline": "nondeterministic",
        "medians": [
            {
                "variant": variant,
                "device": "cpu",
                "size": None,
                "phase": phase,
                "seconds_per_step": 0.08 * scale,
                "iqr_share": 0.04,
                "rounds": 12,
                "steps": 5,
                "unstable": False,
            }
            for variant, scale in zip(VARIANTS, [1, ratio], strict=True)
            for phase in ("first_call", "train")
        ],
        "ratios": [
            {
                "variant": "deterministic",
                "size": None,
                "phase": "train",
                "time_ratio": ratio,
                "low": ratio - 0.03,
                "high": ratio + 0.02,
            }
        ],
    }
    artifacts.write_csv(results / f"timings/{name}.csv", pd.DataFrame(rows))
    write_summary(results / f"timings/{name}.json", **changes)
    return results / f"timings/{name}.json"


def write_digits(results: Path) -> Path:
    """Write a small dataset of images with labels and angles; give the path of its .npz."""
    generator = np.random.default_rng(2)
    arrays = {
        "train_images": generator.integers(0, 256, (200, 28, 28), dtype=np.uint8),
        "train_labels": np.arange(200) % 10,
        "train_angles": generator.integers(-45, 46, 200).astype(np.float32),
    }
    artifacts.write_arrays(results / "data/digits.npz", arrays)
    manifest = {
        "dataset": "digits",
        "make": "twinrun.data.digits:make",
        "parameters": {"images_per_class": 20, "seed": 1},
        "libraries": {"numpy": np.__version__},
        "arrays": {k: {"shape": list(a.shape), "dtype": str(a.dtype)} for k, a in arrays.items()},
        "sha256": artifacts.sha256(results / "data/digits.npz"),
    }
    artifacts.write_json(results / "data/digits.json", manifest)
    return results / "data/digits.npz"


def example_config(workloads: list[str], variants: list[str], seeds: list[int]) -> dict[str, Any]:
    """Give a config as the settings resolve it."""
    return {
        "studies": ["reproducibility"],
        "accelerator": "auto",
        "datasets": {
            "digits": {
                "make": "twinrun.data.digits:make",
                "parameters": {"seed": 1},
                "shows": BY_ANGLE,
            }
        },
        "workloads": {
            name: {
                "module": f"twinrun.workloads.{name}:Example",
                "data": f"twinrun.workloads.{name}:ExampleData",
                "dataset": "digits",
                "epochs": EPOCHS,
                "trainer": asdict(TrainerArguments()),
                "hyperparameters": {"learning_rate": 0.001},
                "shows": {"images": IMAGES} if name == "denoiser" else {},
            }
            for name in workloads
        },
        "variants": {
            name: {"accelerator": "auto", "deterministic": name != "nondeterministic", "threads": 2}
            for name in variants
        },
        "reproducibility": {
            "workloads": workloads,
            "variants": variants,
            "seeds": seeds,
            "repeats": 2,
            "cost": {"rounds": 12, "steps": 5},
        },
    }


@dataclass(frozen=True, kw_only=True)
class Example:
    """A results folder and what a report of it is made of."""

    results: Path
    config: dict[str, Any]
    files: list[str]
    not_run: dict[str, str]

    def report(self) -> Path:
        """Write the page; give its path."""
        output = self.results / "report.html"
        write_report(
            config=self.config,
            not_run=self.not_run,
            files=self.files,
            templates=TEMPLATES,
            output=output,
        )
        return output


def write_results(
    results: Path, *, seeds: tuple[int, ...] = (1,), not_run: dict[str, str] | None = None
) -> Example:
    """Write everything a report is made of: two workloads, two variants, figures, verdicts."""
    not_run = not_run or {}
    variants = [variant for variant in VARIANTS if variant not in not_run]
    files: list[Path] = [results / "verdicts.csv"]
    verdicts = []
    for workload in SHAPES:
        first = initial_tensors(workload)
        runs, comparisons = [], []
        for variant in variants:
            second = with_differences(first) if variant == "nondeterministic" else first
            names = {"workload": workload, "variant": variant}
            for seed in seeds:
                for repeat, tensors in enumerate([first, second], start=1):
                    runs.append(
                        write_run(
                            results,
                            tensors,
                            **names,
                            seed=seed,
                            repeat=repeat,
                            images=workload == "denoiser",
                        )
                    )
            comparisons.append(write_comparison(results, first, second, **names, seeds=seeds))
        verdicts += [_verdict(workload, variant, comparisons, not_run) for variant in VARIANTS]
        timing = [write_timing(results, workload=workload)] if len(variants) == 2 else []
        verdicts += [_cost_verdict(workload)] if timing else []
        locations = [write_location(path) for path in comparisons]
        files += [*runs, *comparisons, *locations, *timing]
        files += draw_figures(results, workload, runs, comparisons, timing)
    digits = write_digits(results)
    contact_sheet(digits, **BY_ANGLE, output=results / "figures/data/digits.svg")
    files += [results / "data/digits.json", results / "figures/data/digits.svg"]
    write_rows(results / "verdicts.csv", verdicts)
    config = example_config(list(SHAPES), VARIANTS, list(seeds))
    return Example(results=results, config=config, files=[*map(str, files)], not_run=not_run)


def draw_figures(
    results: Path, workload: str, runs: list[Path], comparisons: list[Path], timing: list[Path]
) -> list[Path]:
    """Draw the figures of a workload as the rules do; give their paths."""
    folder = results / f"figures/reproducibility/{workload}"
    first_layer(runs, variants=VARIANTS, output=folder / "first_layer.svg")
    layers(runs, variants=VARIANTS, output=folder / "layers.svg")
    growth(comparisons, variants=VARIANTS, output=folder / "growth.svg")
    locations = [write_location(path) for path in comparisons]
    operations(locations, variants=VARIANTS, output=folder / "operations.svg")
    curves(runs, variants=VARIANTS, output=folder / "curves.svg")
    for path in timing:
        cost(path, variants=VARIANTS, output=folder / "cost.svg")
    if workload == "denoiser":
        strip(runs[0], names=IMAGES, output=folder / "strip.svg")
    return sorted(folder.glob("*.svg"))


def _verdict(
    workload: str, variant: str, comparisons: list[Path], not_run: dict[str, str]
) -> dict[str, str]:
    """Give a row as verdicts.csv has it."""
    row = {
        "study": "reproducibility",
        "key": "repeats",
        "workload": workload,
        "variant": variant,
        "question": "Are all learnable parameters equal, bit for bit?",
    }
    if variant in not_run:
        return row | {"answer": "not run", "measured": not_run[variant], "evidence": ""}
    path = next(path for path in comparisons if path.stem == variant)
    summary = artifacts.read_json(path)[0]
    differing, all_ = (summary["parameters"][k] for k in ("elements_differing", "elements"))
    return row | {
        "answer": summary["answer"],
        "measured": f"{differing:,} of {all_:,} parameters differ (2 repeats)",
        "evidence": f"comparisons/reproducibility/{workload}/{variant}.json",
    }


def _cost_verdict(workload: str) -> dict[str, str]:
    return {
        "study": "reproducibility",
        "key": "cost",
        "workload": workload,
        "variant": "deterministic",
        "question": "Does it cost time, compared with nondeterministic?",
        "answer": "yes",
        "measured": "slower, 8% more time: 1.08 times the time a step (95% interval 1.05 to 1.10)",
        "evidence": f"timings/determinism_{workload}.json",
    }
