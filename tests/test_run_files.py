"""Files that changed after they were written: named, never compared, never executed."""

import io
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from example_results import VARIANTS, initial_tensors
from example_results import write_run as example_run
from example_runs import seal, write_run

from twinrun import artifacts, run_files
from twinrun.comparison.compare import compare
from twinrun.errors import TwinrunError
from twinrun.figures.pairs import first_layer, layers
from twinrun.figures.predictions import strip, surfaces
from twinrun.figures.training import curves


def truncated(content):
    return content[: len(content) // 2]


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def compared(folder, runs):
    outputs = {name: folder / f"{name}.out" for name in ("summary", "tensors", "steps")}
    compare(runs, **outputs)
    return outputs


@pytest.mark.parametrize("damage", [truncated, flipped, lambda content: b"", None])
@pytest.mark.parametrize(
    "name",
    ["weights.safetensors", "run.json", "steps.csv", "fingerprints.npz", run_files.CHECKSUMS],
)
def test_a_damaged_file_of_a_run_is_named_and_never_compared(tmp_path, name, damage):
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    file = runs[1].with_name(name)
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage(file.read_bytes()))
    # The list of hashes cannot vouch for itself: damaged, it accuses a file of its run.
    named = "repeat2/" if name == run_files.CHECKSUMS else f"repeat2/{name}"
    with pytest.raises(TwinrunError, match=f"{named}.* is corrupt.*delete its folder"):
        compared(tmp_path, runs)
    assert not list(tmp_path.glob("*.out"))


@pytest.mark.parametrize("damage", [truncated, flipped])
@pytest.mark.parametrize(
    ("name", "draw"),
    [
        ("weights.safetensors", partial(first_layer, variants=VARIANTS)),
        ("weights.safetensors", partial(layers, variants=VARIANTS)),
        ("epochs.csv", partial(curves, variants=VARIANTS)),
        (
            "predictions.safetensors",
            lambda runs, output: strip(runs[1], names=["noisy"], output=output),
        ),
        (
            "predictions.safetensors",
            lambda runs, output: surfaces(runs[1:], names=["z", "t"], output=output),
        ),
    ],
)
def test_a_damaged_file_of_a_run_is_never_drawn(tmp_path, name, draw, damage):
    tensors = initial_tensors("denoiser")
    options = {"workload": "denoiser", "variant": "deterministic", "images": True}
    runs = [example_run(tmp_path, tensors, repeat=repeat, **options) for repeat in (1, 2)]
    file = runs[1].with_name(name)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(TwinrunError, match=f"repeat2/{name} is corrupt"):
        draw(runs, output=tmp_path / "figure.svg")
    assert not (tmp_path / "figure.svg").exists()


@pytest.mark.parametrize("bit", range(8))
def test_a_digit_that_still_is_json_is_found(tmp_path, bit):
    """A flipped bit may leave a run.json that can be read: the number of steps, say."""
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    content = bytearray(runs[0].read_bytes())
    content[content.index(b'"steps": ') + 9] ^= 1 << bit
    runs[0].write_bytes(content)
    with pytest.raises(TwinrunError, match=r"repeat1/run\.json is corrupt"):
        compared(tmp_path, runs)


@pytest.mark.parametrize("damage", [truncated, flipped])
def test_a_damaged_dataset_is_named(tmp_path, damage):
    file = tmp_path / "points.npz"
    artifacts.write_arrays(file, {"points": np.arange(1000.0)})
    artifacts.write_json(
        file.with_suffix(".json"), {"dataset": "points", "sha256": artifacts.sha256(file)}
    )
    artifacts.check_dataset(file)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(TwinrunError, match=r"points\.npz is corrupt.*delete it"):
        artifacts.check_dataset(file)


@pytest.mark.parametrize("beside", [None, [1], {"sha256": "mine"}])
def test_a_file_of_the_users_own_needs_no_manifest(tmp_path, beside):
    file = tmp_path / "mine.npz"
    file.write_bytes(b"anything")
    if beside is not None:
        artifacts.write_json(file.with_suffix(".json"), beside)
    artifacts.check_dataset(file)


class Poison:
    """Unpickled, it makes a file."""

    def __init__(self, victim):
        self.victim = victim

    def __reduce__(self):
        return Path.touch, (self.victim,)


def pickled(poison):
    return pickle.dumps(poison)


def as_object_array(poison):
    buffer = io.BytesIO()
    arrays = dict.fromkeys(["names", "initial", "gradients", "parameters", "sample"], 0)
    np.savez(buffer, **{key: np.array([poison], dtype=object) for key in arrays})
    return buffer.getvalue()


def as_checkpoint(poison):
    import torch

    buffer = io.BytesIO()
    torch.save({"state_dict": poison}, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("form", [pickled, as_object_array, as_checkpoint])
@pytest.mark.parametrize("name", ["weights.safetensors", "fingerprints.npz", "steps.csv"])
def test_a_poisoned_pickle_is_never_executed(tmp_path, name, form):
    """Also when whoever planted it put its hash in order."""
    victim = tmp_path / "executed"
    runs = [write_run(tmp_path, 1), write_run(tmp_path, 2)]
    runs[1].with_name(name).write_bytes(form(Poison(victim)))
    seal(runs[1].parent)
    with pytest.raises(TwinrunError, match="is corrupt"):
        compared(tmp_path, runs)
    assert not victim.exists()
    pickle.loads(pickled(Poison(victim)))  # noqa: S301 - that it would have worked
    assert victim.exists()


def test_nothing_in_the_package_unpickles():
    own = set()  # of any kind: a batch, which the same job wrote and deletes
    for file in Path(artifacts.__file__).parent.rglob("*.py"):
        text = file.read_text()
        assert "pickle.load" not in text, file
        assert "allow_pickle=True" not in text, file
        assert "yaml.load(" not in text, file
        assert "eval(" not in text.replace(".eval()", ""), file
        loads = [line for line in text.splitlines() if "torch.load(" in line]
        if any("weights_only=True" not in line for line in loads):
            own.add(file.name)
            assert len(loads) == 1
    assert own == {"replay.py"}
