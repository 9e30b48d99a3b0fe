"""What large networks and long trainings cost: time, memory and disk.

    python docs/measurements/large.py FOLDER [CASE ...]

`weights`: two files of 500 million parameters are compared, equal and apart.
`steps`: a training of 200,000 steps of a tiny network, with its trace written, read and compared.
`tables`: what tracing keeps of 1,000,000 steps of 500 tensors, without their training.
`transformer`: steps of a transformer of 100 million parameters on random tokens, with and without
their trace, in turn.
`pair`: two runs of 24 steps of this transformer, as the workflow makes them, and their comparison.
`location`: two runs of a transformer of 20 million parameters that differ from step 6 on, compared
and located.

Each in a process of its own, in FOLDER, which takes 5 GB; all of them if none is named. What is
compared or located is so in a fresh process, as by the workflow.
"""

import argparse
import itertools
import json
import multiprocessing
import platform
import resource
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
import yaml
from msgspec import convert
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from twinrun import artifacts
from twinrun.config.definitions import Run
from twinrun.config.shipped import SCHEMA
from twinrun.config.traced_steps import PER_TENSOR
from twinrun.run_records import PER_STEP
from twinrun.trace.step_row import RECORD
from twinrun.trace.step_tables import StepTables
from twinrun.trace.step_tracer import Tracer
from twinrun.training.run import run

ELEMENTS, PART = 500_000_000, 2**24
STEPS, MANY_STEPS, TENSORS = 200_000, 1_000_000, 500
# A fresh process: what it computes, and what is said of it.
FRESH = """
import json, resource, sys, time
from pathlib import Path
from msgspec import convert
started, given = time.perf_counter(), json.loads(sys.argv[1])
{code}
# Not of getrusage, which begins with that of the process that has started this one.
own = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
of_children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
peaks = [int(kib) * 1024 / 1e6 for kib in (own.split()[1], of_children)]
print(json.dumps([time.perf_counter() - started, *peaks, found]))
"""
WEIGHTS = """
from twinrun.artifacts import StoredTensors
from twinrun.comparison.tensors import compare_tensors
row = compare_tensors(given["tensors"], *map(StoredTensors, given["paths"])).rows[0]
found = f"{row['elements_differing']:,} differ"
"""
TRACES = """
from twinrun import artifacts
from twinrun.comparison.tables import read_steps
table = read_steps(Path(given["folder"], "steps.csv"), given["steps"])
arrays = artifacts.read_arrays(Path(given["folder"], "fingerprints.npz"))
found = f"{len(table):,} steps of it, {len(arrays['sample_steps']):,} with a sample"
"""
COMPARED = """
from twinrun.comparison.compare import compare_seeds
compare_seeds(given["runs"], **given["files"])
(found,) = json.loads(Path(given["files"]["summary"]).read_text())
found = found["answer"]
"""
LOCATED = """
from twinrun.comparison.locate import locate
from twinrun.config.definitions import Replay
locate(**given["files"], run=convert(given["run"], Replay))
(found,) = json.loads(Path(given["files"]["output"]).read_text())
found = found["sentence"]
"""


def megabytes() -> float:
    """Return the most memory that this process has had, in 10^6 bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def size_of(folder: Path) -> float:
    """Return the size of all files, in 10^6 bytes."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def fresh(code: str, given: dict[str, Any]) -> tuple[float, float, float, str]:
    """Compute in a fresh process; return seconds, its peak and its children's in MB, and a text."""
    command = [sys.executable, "-c", FRESH.format(code=code), json.dumps(given)]
    # What it prints on its way stands before.
    *_, last = subprocess.check_output(command, text=True).splitlines()  # noqa: S603
    return tuple(json.loads(last))


def say_fresh(what: str, code: str, given: dict[str, Any], disk: float | None = None) -> None:
    """Compute in a fresh process and print a row of the table."""
    seconds, own, of_children, found = fresh(code, given)
    children = f", its processes {of_children:,.0f} MB" if of_children > 100 else ""
    on_disk = "" if disk is None else f"{disk:,.0f} MB"
    print(
        f"| {what} ({found}) | {seconds:,.1f} s | {own:,.0f} MB{children} | {on_disk} |", flush=True
    )


def say(what: str, started: float, memory_before: float, disk: float | None = None) -> None:
    """Print a row of the table."""
    memory = megabytes()
    on_disk = "" if disk is None else f"{disk:,.0f} MB"
    print(
        f"| {what} | {time.perf_counter() - started:,.1f} s | {memory:,.0f} MB "
        f"({memory - memory_before:,.0f} more than before) | {on_disk} |",
        flush=True,
    )


def write_weights(path: Path, value: float) -> None:
    """Write ELEMENTS numbers as safetensors, without holding them."""
    entry = {"dtype": "F32", "shape": [ELEMENTS // 1000, 1000], "data_offsets": [0, 4 * ELEMENTS]}
    header = json.dumps({"embedding": entry}).encode()
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for start in range(0, ELEMENTS, PART):
            size = min(PART, ELEMENTS - start)
            (np.arange(start, start + size, dtype=np.float32) * np.float32(value)).tofile(file)


def weights(folder: Path) -> None:
    """Compare two embeddings."""
    tensor: Any = {"kind": "parameter", "dtype": "float32", "name": "embedding"}
    tensor["shape"] = [ELEMENTS // 1000, 1000]
    for what, value in (("equal", 1.0), ("apart", 1.0000001)):
        paths = [folder / "first.safetensors", folder / "second.safetensors"]
        write_weights(paths[0], 1.0)
        write_weights(paths[1], value)
        given = {"tensors": [tensor], "paths": [str(path) for path in paths]}
        say_fresh(f"500 million parameters compared, {what}", WEIGHTS, given, 4e3)


class Numbers(IterableDataset[torch.Tensor]):
    """Random numbers without end."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        generator = torch.Generator().manual_seed(1)
        return (torch.rand(8, 4, generator=generator) for _ in itertools.count())


class Tiny(pl.LightningModule):
    """A network of a hundred parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        """Give the squared error of a sum."""
        return (self.layers(batch)[:, 0] - batch.sum(1)).square().mean()

    def configure_optimizers(self) -> Any:
        """Move the rate at every step."""
        optimizer = torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def trained(module: pl.LightningModule, data: Any, steps: int, *callbacks: pl.Callback) -> None:
    """Train for some steps."""
    torch.set_num_threads(2)
    pl.seed_everything(1, verbose=False)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_steps=steps,
        max_epochs=-1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=list(callbacks),
    )
    trainer.fit(module, DataLoader(data, batch_size=None))


def published(tables: Any, folder: Path) -> Path:
    """Write what a run publishes of a trace."""
    artifacts.write_csv_parts(folder / "steps.csv", tables.table())
    artifacts.write_arrays(folder / "fingerprints.npz", tables.arrays())
    return folder


def steps(folder: Path) -> None:
    """Train a tiny network for long."""
    trained(Tiny(), Numbers(), 1000)
    tracer = Tracer()
    tracer.keep_in(folder / "trace")
    before, started = megabytes(), time.perf_counter()
    trained(Tiny(), Numbers(), STEPS, tracer)
    say(f"{STEPS:,} steps of a tiny network, traced", started, before, size_of(folder / "trace"))
    before, started = megabytes(), time.perf_counter()
    written = published(tracer, folder / "run")
    say("its trace published", started, before, size_of(written))
    given = {"folder": str(written), "steps": STEPS}
    say_fresh("its trace read as for a comparison", TRACES, given)
    before, started = megabytes(), time.perf_counter()
    trained(Tiny(), Numbers(), STEPS)
    say("the same training, not traced", started, before)


def tables(folder: Path) -> None:
    """Keep what 1,000,000 steps of 500 tensors leave."""
    kept = StepTables(folder / "trace")
    kept.begin(most=PER_TENSOR)
    values = np.random.default_rng(1).integers(2**63, size=TENSORS, dtype=np.uint64).tolist()
    names = {
        "names": [f"layer{i}.weight" for i in range(TENSORS)],
        "rng_state_names": ["python", "numpy", "torch"],
        "buffer_names": [],
    }
    rows = {
        key: kept.row(of, dict(zip(names[of], values, strict=False)))
        for key, of in PER_STEP.items()
    }
    elements, samples = np.random.rand(1024).astype(np.float32), np.arange(64, dtype=np.uint64)
    random = np.random.default_rng(2)
    before, started = megabytes(), time.perf_counter()
    for step in range(1, MANY_STEPS + 1):
        kept.add_details(step, rows)
        if kept.has_sample():
            kept.add_sample(step, elements)
        kept.add_samples(samples)
        loss = float(np.float32(random.random()))
        kept.add((step, step // 5000, loss, *values[: len(RECORD) - 3]))
    say("1,000,000 steps of 500 tensors kept", started, before, size_of(folder / "trace"))
    before, started = megabytes(), time.perf_counter()
    say("the same published", started, before, size_of(published(kept, folder / "run")))


class Tokens(IterableDataset[torch.Tensor]):
    """Random tokens without end."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        generator = torch.Generator().manual_seed(1)
        return (torch.randint(32_000, (4, 129), generator=generator) for _ in itertools.count())


class Transformer(pl.LightningModule):
    """A language model: with 11 layers of width 768 and 32,000 tokens, 103 million parameters."""

    def __init__(self, width: int = 768, layers: int = 11, noisy_step: int = -1) -> None:
        """Construct it.

        Args:
            width: of a layer.
            layers: their number.
            noisy_step: from 0; one to which something is added that the seed does not decide.
        """
        super().__init__()
        self.noisy_step = noisy_step
        self.tokens = nn.Embedding(32_000, width)
        layer = nn.TransformerEncoderLayer(
            width, width // 64, 4 * width, dropout=0.1, batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 32_000, bias=False)
        self.head.weight = self.tokens.weight

    def train_dataloader(self) -> DataLoader[torch.Tensor]:
        """Give random tokens."""
        return DataLoader(Tokens(), batch_size=None)

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        """Give the cross-entropy of the next token."""
        mask = nn.Transformer.generate_square_subsequent_mask(128)
        found = self.layers(self.tokens(batch[:, :-1]), mask=mask, is_causal=True)
        if self.trainer.global_step == self.noisy_step:
            unseeded = torch.Generator()
            unseeded.seed()
            found = found + 1e-6 * torch.rand(found.shape, generator=unseeded)
        return nn.functional.cross_entropy(self.head(found).flatten(0, 1), batch[:, 1:].flatten())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Take a state of twice the parameters."""
        return torch.optim.AdamW(self.parameters(), lr=1e-4)


class Clock(pl.Callback):
    """Notes when each step has ended."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_train_batch_end(self, *_: object, **__: object) -> None:
        """Look at the clock."""
        self.ends.append(time.perf_counter())

    def median(self) -> float:
        """Return the median seconds of a step, the first ones left out."""
        return float(np.median(np.diff(self.ends)[2:]))


def transformer(folder: Path) -> None:
    """Train a transformer with and without its trace, in turn."""
    medians: dict[str, list[float]] = {"not traced": [], "traced": []}
    before, started = megabytes(), time.perf_counter()
    for _ in range(2):
        for what, found in medians.items():
            module, clock, tracer = Transformer(), Clock(), Tracer()
            tracer.keep_in(folder / "trace")
            trained(module, Tokens(), 12, *([tracer] if what == "traced" else []), clock)
            found.append(clock.median())
            if what == "not traced":
                say(f"12 steps of a transformer, {what}", started, before)
    count = sum(p.numel() for p in module.parameters()) / 1e6
    plain, traced = (min(found) for found in medians.values())
    say(
        f"12 steps of a transformer of {count:.0f} million parameters, traced: {traced:.2f} s a "
        f"step, {traced / plain:.3f} times {plain:.2f} s",
        started,
        before,
        size_of(folder / "trace"),
    )


def runs_of(folder: Path, hyperparameters: dict[str, Any], steps: int) -> dict[str, Any]:
    """Train twice as the workflow does, print what each run took, and return what they are of."""
    settings = yaml.safe_load(SCHEMA.read_text())["properties"]["variants"]["additionalProperties"]
    defaults = {name: entry["default"] for name, entry in settings["properties"].items()}
    training = {
        "workload": {
            "module": "large:Transformer",
            "dataset": None,
            "hyperparameters": hyperparameters,
            "epochs": -1,
            "trainer": {"max_steps": steps},
        },
        "variant": {**defaults, "accelerator": "cpu", "deterministic": True, "threads": 2},
        "dataset": None,
        "search_path": [str(Path(__file__).parent)],
    }
    names = {"weights": "weights.safetensors", "steps": "steps.csv", "epochs": "epochs.csv"}
    names |= {"fingerprints": "fingerprints.npz", "predictions": "predictions.safetensors"}
    names |= {"manifest": "run.json", "checksums": "SHA256SUMS"}
    for repeat in (1, 2):
        here = folder / f"repeat{repeat}"
        asked = {
            "identity": {"workload": "large", "variant": "plain", "seed": 1, "repeat": repeat},
            "training": {**training, "seed": 1},
            "source_sha256": "0" * 64,
            "imports": "",
            "files": {key: str(here / name) for key, name in names.items()},
            "checkpoints": str(folder / f"checkpoints{repeat}"),
            "checkpoint_minutes": 10,
        }
        run(convert(asked, Run), {})
        found = json.loads((here / "run.json").read_text())
        millions = sum(np.prod(t["shape"]) for t in found["tensors"]) / 1e6
        peak = found["peak_memory_mb"] * 2**20 / 1e6
        print(
            f"| run {repeat}: {found['steps']} steps of {millions:.0f} million parameters | "
            f"{found['seconds']['total']:,.1f} s | {peak:,.0f} MB | "
            f"{size_of(here):,.0f} MB |",
            flush=True,
        )
    return training


def compared(folder: Path) -> str:
    """Compare both runs and print it; return the file with the answer."""
    files = {key: str(folder / key) for key in ("summary", "tensors", "steps")}
    runs = [str(folder / f"repeat{repeat}" / "run.json") for repeat in (1, 2)]
    say_fresh("both compared", COMPARED, {"runs": runs, "files": files})
    return files["summary"]


def pair(folder: Path) -> None:
    """Train a large transformer twice and compare."""
    runs_of(folder, {}, 24)
    compared(folder)


def location(folder: Path) -> None:
    """Train a smaller one twice, with a fault, and find it."""
    training = runs_of(folder, {"width": 384, "layers": 4, "noisy_step": 5}, 8)
    files = {"comparisons": compared(folder)}
    files |= {"output": str(folder / "location.json"), "operations": str(folder / "ops.csv")}
    say_fresh("the fault located", LOCATED, {"run": training, "files": files})


CASES: dict[str, Callable[[Path], None]] = {
    "weights": weights,
    "steps": steps,
    "tables": tables,
    "transformer": transformer,
    "pair": pair,
    "location": location,
}


def _alone(name: str, folder: Path) -> None:
    warnings.filterwarnings("ignore")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    CASES[name](folder)
    shutil.rmtree(folder)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("case", nargs="*", choices=[*CASES, []])
    given = parser.parse_args()
    folder, names = given.folder, given.case or list(CASES)
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, pytorch-lightning "
        f"{pl.__version__}, NumPy {np.__version__}"
    )
    print("| what | time | memory | disk |\n| --- | --- | --- | --- |", flush=True)
    spawn = multiprocessing.get_context("spawn")
    for name in names:
        process = spawn.Process(target=_alone, args=(name, folder / name))
        process.start()
        process.join()


if __name__ == "__main__":
    main()
