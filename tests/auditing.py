"""Two trainings compared, and the place where they diverge: what the tests of faults share."""

import json
import signal
from contextlib import contextmanager

import msgspec
from example_trainings import FILES, HERE, VARIANT, training

from twinrun.comparison.compare import compare_seeds
from twinrun.comparison.locate import locate
from twinrun.config.definitions import Replay
from twinrun.process.fresh_process import rebuilt
from twinrun.process.import_path import import_object

NOT_DETERMINISTIC = {"deterministic": False, "fill_uninitialized_memory": False}
PLAIN = {**VARIANT, **NOT_DETERMINISTIC, "threads": 1}


def here(function, arguments, environment=None):
    """Call what would have a process of its own."""
    called = import_object(function)
    called(**rebuilt(called, msgspec.to_builtins(arguments)))


@contextmanager
def in_this_process(monkeypatch):
    """Have trainings and replays run here, and few of them; put signal handlers back."""
    monkeypatch.setattr("twinrun.comparison.locate.launch", here)
    monkeypatch.setattr("twinrun.comparison.locate.REPEATS", 3)
    for name in ("PL_GLOBAL_SEED", "PL_SEED_WORKERS"):
        monkeypatch.setenv(name, "0")
    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def workload(module="Base", data="Points", faults="faults"):
    return {
        "module": f"{faults}:{module}",
        "data": f"faults:{data}",
        "dataset": None,
        "hyperparameters": {},
        "epochs": 1,
    }


def train(folder, repeat, settings, variant=PLAIN, *, name="plain", start=here, environment=None):
    """Train and give the path of run.json."""
    folder = folder / name / f"repeat{repeat}"
    folder.mkdir(parents=True)
    start(
        "twinrun.training.train:train",
        {
            "run": {
                "identity": {"workload": "w", "variant": name, "seed": 1, "repeat": repeat},
                "training": training(settings, variant),
                "source_sha256": "5" * 64,
                "files": {key: str(folder / file) for key, file in FILES.items()},
                "imports": "",
                "checkpoints": f"{folder}-checkpoints",
                "checkpoint_minutes": 10,
            }
        },
        environment or {},
    )
    return folder / "run.json"


def compared(folder, runs, **options):
    files = {key: folder / f"seed1.{key}" for key in ("summary", "tensors", "steps")}
    compare_seeds(runs, **files, **options)
    (summary,) = json.loads(files["summary"].read_text())
    return summary


def audit(folder, variant=PLAIN, **names):
    """Train twice, compare, locate; give the comparison and the location."""
    settings = workload(**names)
    summary = compared(folder, [train(folder, repeat, settings, variant) for repeat in (1, 2)])
    return summary, located(folder, settings, variant)


def located(folder, settings, variant):
    run = {"workload": settings, "variant": variant, "dataset": None}
    output, operations = folder / "location.json", folder / "location.operations.csv"
    locate(
        comparisons=str(folder / "seed1.summary"),
        run=msgspec.convert(run | {"search_path": [HERE]}, Replay),
        output=str(output),
        operations=str(operations),
    )
    (location,) = json.loads(output.read_text())
    return location
