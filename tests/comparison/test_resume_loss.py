"""What resuming loses is found and named: by Lightning's own checkpoint, and by planted faults."""

from pathlib import Path
from unittest.mock import patch

import pandas as pd
import pytest
import pytorch_lightning as pl
import torch
from example_comparisons import DIVERGENCE
from example_runs import MANIFEST, fail, seal, write_run
from small import Points, Restless, Small
from stored import write_tensors
from torch.nn import functional
from tracing import rows_of

from twinrun import artifacts
from twinrun.checkpoint import interrupt, restored, resumable
from twinrun.checkpoint.interrupt import Interrupt
from twinrun.checkpoint.resumable import Resumable
from twinrun.comparison.resume_loss import diagnose, losses
from twinrun.comparison.study_records import read_stops
from twinrun.process.determinism import rng_states
from twinrun.trace.step_tracer import Tracer
from twinrun.verdicts.evidence import Evidence
from twinrun.verdicts.studies import resume
from twinrun.workloads.order import EpochOrder, ResidentTensors, loader

EPOCHS = 3  # of 5 steps


class Killed(BaseException):
    pass


class Ordered(Points):
    """Its order comes from seed and epoch alone."""

    def train_dataloader(self):
        data = ResidentTensors(self.inputs, self.targets)
        order = EpochOrder(len(data), seed=1)
        return loader(data, order, batch_size=16, drop_last=False, workers=0)


class WithoutValidation(Ordered):
    val_dataloader = pl.LightningDataModule.val_dataloader


class Unshuffled(Points):
    """Each epoch has the same batches in the same order."""

    def train_dataloader(self):
        return self._loader()


class Drops(Small):
    """Nothing but its dropout draws a random number."""

    def forward(self, inputs):
        return super().forward(functional.dropout(inputs))


class LosesRNGStates(Restless):
    def on_load_checkpoint(self, checkpoint):
        checkpoint[resumable.KEY]["random"] = rng_states()


class LosesOptimizer(Restless):
    def on_load_checkpoint(self, checkpoint):
        for optimizer in checkpoint["optimizer_states"]:
            optimizer["state"].clear()


class LosesLearningRate(Restless):
    def on_load_checkpoint(self, checkpoint):
        for optimizer in checkpoint["optimizer_states"]:
            optimizer["param_groups"][0]["lr"] *= 2


def diagnose_pair(folder, pair):
    """Leave stops.csv and stops.json of one stopped training and the whole one."""
    diagnose(
        [pair],
        workload="small",
        variant="plain",
        seed=1,
        folder=folder / "comparisons",
        table=folder / "stops.csv",
        summary=folder / "stops.json",
    )


def train(folder, module, data, *, checkpoint=None, callbacks=(), stop="none"):
    """Train in this process as a fresh one would, and leave the files of a run."""
    pl.seed_everything(1, verbose=False)
    module, data, tracer = module(), data(size=70), Tracer()
    trainer = pl.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        callbacks=[*callbacks, tracer],
        enable_checkpointing=any(isinstance(callback, Interrupt) for callback in callbacks),
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(module, data, ckpt_path=checkpoint, weights_only=True)
    parameters = dict(module.named_parameters())
    tensors = {**parameters, **dict(module.named_buffers())}
    write_tensors(folder / "weights.safetensors", tensors)
    artifacts.write_csv(folder / "steps.csv", pd.DataFrame(rows_of(tracer)))
    artifacts.write_arrays(folder / "fingerprints.npz", tracer.arrays())
    write_tensors(folder / "predictions.safetensors", {})
    artifacts.write_csv(folder / "epochs.csv", pd.DataFrame({"epoch": range(1, EPOCHS + 1)}))
    variant = MANIFEST["settings"]["variant"] | {"stop": stop}
    manifest = MANIFEST | {
        "settings": MANIFEST["settings"] | {"variant": variant},
        "repeat": 1,
        "tensors": [
            {
                "name": name,
                "kind": "parameter" if name in parameters else "buffer",
                "shape": list(tensor.shape),
                "dtype": str(tensor.dtype)[6:],
            }
            for name, tensor in tensors.items()
        ],
        "weights_sha256": artifacts.sha256(folder / "weights.safetensors"),
        "steps": tracer.steps,
        "resumed_at": tracer.resumed_at,
        "was_stopped": checkpoint is not None,
    }
    artifacts.write_json(folder / "run.json", manifest)
    seal(folder)
    return str(folder / "run.json")


def stopped_and_resumed(folder, module, data, stop, by):
    file = folder.parent / interrupt.FILE if by == "lightning" else None
    # A planted fault is for the diagnosis to find, and not for the looks of `Resumable`.
    in_epoch = interrupt.checkpoint_before(stop) if module is Restless else None
    told = {"minutes": 0, "in_epoch": in_epoch, "fingerprint": None}
    kept = [] if file else [Resumable(folder.parent / "checkpoints", **told)]
    try:
        train(folder, module, data, callbacks=[*kept, Interrupt(stop, file)], stop=stop)
    except Killed:
        checkpoint = file or kept[0].last()
        with patch.object(restored, "unlike", lambda *_: None):
            return train(folder, module, data, checkpoint=checkpoint, callbacks=kept, stop=stop)
    return str(folder / "run.json")


@pytest.fixture
def found(tmp_path, monkeypatch, request):
    """What the diagnosis says of one stop; what a fault would lose is planted at resuming."""
    module, data, stop, by = request.param

    def end():
        raise Killed

    monkeypatch.setattr(interrupt, "leave", end)
    pair = {
        "stop": stop,
        "resume": by,
        "whole": train(tmp_path / "whole", module, data),
        "stopped": stopped_and_resumed(tmp_path / "stopped", module, data, stop, by),
    }
    diagnose_pair(tmp_path, pair)
    return artifacts.read_json(tmp_path / "stops.json")


def case(module, data, stop, by, answer, resumed_at, lost):
    return pytest.param(
        (module, data, stop, by),
        (answer, resumed_at, lost),
        id=f"{module.__name__}-{data.__name__}-{stop}-{by}",
    )


OPTIMIZER = "the optimizer's state or settings are not those of the stop"
TORCH = "the RNG states of torch are not those of the stop"
ALL_STATES = "the RNG states of python, numpy and torch are not those of the stop"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        case(Restless, Points, "mid_epoch", "twinrun", "equal", 6, "nothing was lost"),
        case(Restless, Points, "last_batch", "twinrun", "equal", 9, "nothing was lost"),
        case(Restless, Points, "epoch_end", "twinrun", "equal", 7, "nothing was lost"),
        case(Restless, Points, "before_validation", "twinrun", "equal", 7, "nothing was lost"),
        case(Restless, Points, "after_validation", "twinrun", "equal", 7, "nothing was lost"),
    ],
    indirect=["found"],
)
def test_twinruns_checkpoint_loses_nothing(found, expected):
    """Its checkpoint lies before the stop, by the number of batches: no clock has a part in it."""
    (stop,) = found["stops"]
    assert (stop["answer"], stop["resumed_at"], stop["lost"]) == expected


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        case(
            Restless,
            Points,
            "epoch_end",
            "lightning",
            "differs",
            10,
            f"the order of epoch 1 is replayed in epoch 3; {ALL_STATES}",
        ),
        case(
            Small,
            Ordered,
            "mid_epoch",
            "lightning",
            "differs",
            7,
            f"epoch 2 begins again, leaving out 2 of 3 mini-batches to come; {TORCH}",
        ),
        case(
            Small,
            Unshuffled,
            "mid_epoch",
            "lightning",
            "differs",
            7,
            f"epoch 2 begins again, leaving out 2 of 3 mini-batches to come; {TORCH}",
        ),
        case(
            Small,
            Ordered,
            "epoch_end",
            "lightning",
            "differs",
            10,
            f"{TORCH}; the parameters are equal all the same",
        ),
        case(Small, WithoutValidation, "epoch_end", "lightning", "equal", 10, "nothing was lost"),
        case(
            Drops,
            Ordered,
            "epoch_end",
            "lightning",
            "differs",
            10,
            TORCH,
        ),
        case(
            LosesRNGStates,
            Points,
            "mid_epoch",
            "twinrun",
            "differs",
            5,
            f"the order of epoch 1 is replayed in epoch 2; {ALL_STATES}",
        ),
        case(
            LosesOptimizer,
            Points,
            "epoch_end",
            "twinrun",
            "differs",
            5,
            OPTIMIZER,
        ),
        case(
            LosesLearningRate,
            Points,
            "epoch_end",
            "twinrun",
            "differs",
            5,
            OPTIMIZER,
        ),
        case(
            Small,
            WithoutValidation,
            "before_validation",
            "lightning",
            "not run",
            None,
            "the training has no validation",
        ),
    ],
    indirect=["found"],
)
def test_what_was_lost_is_named(found, expected):
    (stop,) = found["stops"]
    assert (stop["answer"], stop["resumed_at"], stop["lost"]) == expected
    (row,) = resume([Evidence(path="stops.json", found=found)], [], [])
    assert (row["key"], row["answer"]) == (f"resumes_{stop['resume']}", expected[0])
    if expected[0] == "not run":
        assert row["measured"] == expected[2]
    else:
        kept = 1 if expected[0] == "equal" else 0
        assert row["measured"].startswith(f"{kept} of 1 kind of stop")


@pytest.mark.parametrize(
    ("batches", "seen", "lost"),
    [
        ("AB AB CD", "AB", "the order of epoch 1 is replayed in epoch 3"),
        ("AB CD CD", "AB", "the order of epoch 1 is replayed in epoch 3"),
        ("AA AA BC", "AA", "the order of epoch 1 is replayed in epoch 3"),
        ("AB CD AB", "BA", "the mini-batches to come in epoch 3 are in another order"),
        ("AB AB CD", "DD", "1 of 2 mini-batches to come in epoch 3 are left out"),
        ("AB AB CD", "EF", "the mini-batches of epoch 3 are others"),
    ],
)
def test_a_batch_that_came_several_times_is_of_its_first_step(batches, seen, lost):
    """Or of this epoch's own, where it is among those: no shuffling gives each epoch the same."""
    orders = batches.split()
    rows = [(epoch, b) for epoch, order in enumerate(orders, start=1) for b in order]
    whole = pd.DataFrame(rows, columns=["epoch", "batch"])
    whole = whole.assign(before="x", gradients="x", optimizer="x", settings="x")
    resumed = whole.assign(batch=list("".join(orders[:2]) + seen))
    found = {"first_difference": DIVERGENCE, "parameters": {"elements_differing": 1}}
    assert losses(whole, resumed, at=4, found=found) == [lost]


@pytest.mark.parametrize("failed", ["whole", "stopped"])
def test_where_a_training_failed_nothing_can_be_said_of_resuming(tmp_path, failed):
    pair = {name: str(write_run(tmp_path / name)) for name in ("whole", "stopped")}
    fail(Path(pair[failed]), "no memory")
    diagnose_pair(tmp_path, {"stop": "mid_epoch", "resume": "twinrun", **pair})
    (stop,) = read_stops(tmp_path / "stops.json")["stops"]
    assert stop["answer"] == "not run"
    assert stop["lost"] == f"the {failed} training failed: no memory"
    # Red before: Snakemake missed the folder that the rule promises, and the study had no answers.
    assert (tmp_path / "comparisons").is_dir()


def test_fingerprints_that_look_like_one_number_are_two(tmp_path):
    """Read as numbers both are infinite, and the parameters seemed to be those of the stop."""
    resumed = {"resumed_at": [3], "was_stopped": True}
    whole = write_run(tmp_path / "whole", changes={"settings.variant.stop": "mid_epoch"})
    stopped = write_run(tmp_path / "stopped", changes=resumed, planted=[(4, "loss", None)])
    for run, last in ((whole, "12e4567890123456"), (stopped, "13e4567890123456")):
        steps = pd.read_csv(run.with_name("steps.csv"), dtype=str)
        steps["before"] = ["12e4567890123456"] * 3 + [last] * 3
        artifacts.write_csv(run.with_name("steps.csv"), steps)
        seal(run.parent)
    diagnose_pair(
        tmp_path,
        {"stop": "mid_epoch", "resume": "twinrun", "whole": str(whole), "stopped": str(stopped)},
    )
    (stop,) = read_stops(tmp_path / "stops.json")["stops"]
    assert stop["lost"].startswith("the parameters are not those of the stop")


LOGGED = {"train_loss": [0.5, 0.25], "val_loss": [0.6, 0.4]}


@pytest.mark.parametrize(
    ("options", "lost"),
    [
        ({"epochs": LOGGED}, "logged values"),
        ({"changes": {"metrics": {"test_loss": 2.0}}}, "test metrics"),
        ({"predictions": {"scores": torch.zeros(3)}}, "predictions"),
    ],
)
def test_a_stop_that_loses_outputs_has_lost_something(tmp_path, options, lost):
    """The weights are equal: a module kept what it logs or scales with in a plain attribute."""
    plain = {"predictions": {"scores": torch.ones(3)}}
    resumed = {"metrics": {"test_loss": 1.0}, "resumed_at": [3], "was_stopped": True}
    resumed |= {"settings.variant.stop": "mid_epoch"} | options.get("changes", {})
    first = {"metrics": {"test_loss": 1.0}, "resumed_at": [2]}
    whole = write_run(tmp_path / "whole", changes=first, **plain)
    stopped = write_run(tmp_path / "stopped", **plain | options | {"changes": resumed})
    diagnose_pair(
        tmp_path,
        {"stop": "mid_epoch", "resume": "twinrun", "whole": str(whole), "stopped": str(stopped)},
    )
    found = read_stops(tmp_path / "stops.json")
    (stop,) = found["stops"]
    assert (stop["answer"], stop["relative_l2"]) == ("differs", 0.0)
    assert stop["lost"].startswith(f"every parameter and buffer is the same; but {lost} differ: ")
    (row,) = resume([Evidence(path="stops.json", found=found)], [], [])
    assert row["answer"] == "differs"
    assert row["measured"].startswith("0 of 1 kind of stop loses nothing; differs: between two")
    assert f"(in {lost})" in row["measured"]
    # Red before: nobody said so.
    assert "itself resumed after step 2" in row["measured"]


def test_what_was_made_anew_is_named_in_the_verdict(tmp_path):
    """Red before: it stood in the table of stops alone."""
    resumed = {"resumed_at": [3], "was_stopped": True, "settings.variant.stop": "mid_epoch"}
    whole = write_run(tmp_path / "whole")
    stopped = write_run(tmp_path / "stopped", changes=resumed | {"made_anew": ["Rows.images"]})
    diagnose_pair(
        tmp_path,
        {"stop": "mid_epoch", "resume": "twinrun", "whole": str(whole), "stopped": str(stopped)},
    )
    found = read_stops(tmp_path / "stops.json")
    (row,) = resume([Evidence(path="stops.json", found=found)], [], [])
    assert row["answer"] == "equal"
    assert "; Rows.images, which no checkpoint held, was made anew as data" in row["measured"]
