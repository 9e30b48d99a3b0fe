"""A module that imports `lightning` and one that imports `pytorch_lightning` are the same kind."""

import os
import re
import subprocess
import sys
import textwrap
from importlib import metadata

import pytest
from example_trainings import VARIANT, WORKLOAD, arguments

from twinrun.process.launching import environment_of, launch
from twinrun.run_files import read_run

VERSION = metadata.version("pytorch-lightning")

# Every name by every way that the ecosystem imports it.
USES = """
    import lightning as L
    import lightning.pytorch as theirs
    from lightning.fabric.utilities.seed import seed_everything as by_fabric
    from lightning.pytorch.callbacks import EarlyStopping
    from lightning.pytorch.utilities.types import STEP_OUTPUT
    from lightning import Trainer

    import pytorch_lightning as pl
    import pytorch_lightning.callbacks as callbacks
    from lightning_fabric.utilities.seed import seed_everything

    assert L.LightningModule is pl.LightningModule is theirs.LightningModule
    assert L.LightningDataModule is pl.LightningDataModule
    assert Trainer is L.Trainer is pl.Trainer
    assert L.Callback is pl.Callback
    assert L.seed_everything is pl.seed_everything is by_fabric is seed_everything
    assert EarlyStopping is callbacks.EarlyStopping
    assert pl.__version__ == L.__version__
    # Each module is its own still.
    assert pl.__spec__.name == pl.__name__
    try:
        import lightning.pytorch.absent
    except ModuleNotFoundError:
        print("as it should be")
"""

UNITE = "from twinrun.process.one_lightning import unite\nunite()\n"

# What the package `lightning` is made of, without its own copy of the code.
STAND_IN = """
    __version__ = "{version}"
    from lightning.fabric.fabric import Fabric
    from lightning.fabric.utilities.seed import seed_everything
    from lightning.pytorch.callbacks import Callback
    from lightning.pytorch.core import LightningDataModule, LightningModule
    from lightning.pytorch.trainer import Trainer
"""

MIXED = """
    import lightning as L
    import pytorch_lightning as pl
    import torch
    from lightning.pytorch.callbacks import LambdaCallback
    from torch.utils.data import DataLoader, TensorDataset


    class Model(L.LightningModule):
        def __init__(self, size=4):
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(size, 1)

        def training_step(self, batch, batch_idx):
            loss = self.layer(batch[0]).square().mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

        def configure_callbacks(self):
            return [LambdaCallback(), pl.callbacks.LambdaCallback()]


    class Data(L.LightningDataModule):
        def train_dataloader(self):
            return DataLoader(TensorDataset(torch.arange(32.0).reshape(8, 4) / 32), batch_size=4)
"""


def python(code, *folders):
    """Run code in a fresh process, with folders before what is installed."""
    paths = [*map(str, folders), *filter(None, sys.path)]
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )


def installed(folder, version):
    """Install a stand-in for the distribution `lightning`."""
    (folder / "lightning").mkdir()
    text = textwrap.dedent(STAND_IN).format(version=version)
    (folder / "lightning/__init__.py").write_text(text)
    about = folder / f"lightning-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: lightning\nVersion: {version}\n")
    return folder


@pytest.mark.exhaustive
def test_both_are_one_where_lightning_is_not_installed():
    done = python(UNITE + textwrap.dedent(USES))
    assert done.stdout == "as it should be\n", done.stderr


@pytest.mark.exhaustive
def test_both_are_one_where_both_are_installed(tmp_path):
    folder = installed(tmp_path, VERSION)
    done = python(UNITE + textwrap.dedent(USES), folder)
    assert done.stdout == "as it should be\n", done.stderr
    done = python(UNITE + "import lightning; print(lightning.__file__)", folder)
    assert done.stdout == f"{folder}/lightning/__init__.py\n", done.stderr


@pytest.mark.exhaustive
def test_two_versions_are_refused_with_what_to_install(tmp_path):
    folder = installed(tmp_path, "2.99.3")
    done = python(UNITE + "import lightning", folder)
    assert done.returncode == 1
    assert f"lightning 2.99.3 and pytorch-lightning {VERSION} are installed" in done.stderr
    assert "(pip install pytorch-lightning==2.99.3)" in done.stderr
    # Who uses one of them alone, has no difficulty.
    done = python(UNITE + "import pytorch_lightning; print('fine')", folder)
    assert done.stdout == "fine\n", done.stderr


def test_no_version_is_advised_that_twinrun_does_not_work_with(tmp_path):
    """Red before: to install pytorch-lightning 2.5.6, in which every training broke off."""
    done = python(UNITE + "import lightning", installed(tmp_path, "2.5.6"))
    assert f"(pip install lightning=={VERSION})" in done.stderr


def test_a_lightning_that_is_too_old_is_refused(tmp_path):
    """Red before: a module without an attribute of ours, in the middle of a hook."""
    about = tmp_path / "pytorch_lightning-2.5.6.dist-info"
    about.mkdir()
    about.joinpath("METADATA").write_text(
        "Metadata-Version: 2.1\nName: pytorch-lightning\nVersion: 2.5.6\n"
    )
    check = "from twinrun.process.unmet_requirements import check_own; check_own()"
    done = python(check, tmp_path)
    assert done.returncode == 1
    assert re.search(r"wants pytorch-lightning\S*2\.6\S*, where 2\.5\.6 is installed", done.stderr)
    assert python(check).returncode == 0


TOP_ALONE = """
    import lightning as L
    import pytorch_lightning as pl

    assert L.pytorch.callbacks.EarlyStopping is pl.callbacks.EarlyStopping
    assert L.pytorch.loggers.CSVLogger is pl.loggers.CSVLogger
    assert L.pytorch.Trainer is L.Trainer
    assert L.fabric.Fabric is L.Fabric
    print("as it should be")
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("installs", [True, False])
def test_submodules_are_there_without_an_import_of_their_own(tmp_path, installs):
    """`L.pytorch.callbacks.EarlyStopping`, as Lightning's own documentation writes it."""
    folders = [installed(tmp_path, VERSION)] if installs else []
    done = python(UNITE + textwrap.dedent(TOP_ALONE), *folders)
    assert done.stdout == "as it should be\n", done.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", ["pytorch_lightning", "torch"])
def test_it_does_not_matter_what_is_imported_first(first):
    done = python(f"import {first}\n" + UNITE + textwrap.dedent(USES))
    assert done.stdout == "as it should be\n", done.stderr


@pytest.mark.exhaustive
def test_a_module_of_one_with_callbacks_of_both_trains(tmp_path):
    (tmp_path / "mixed.py").write_text(textwrap.dedent(MIXED))
    workload = {"module": "mixed:Model", "data": "mixed:Data", "hyperparameters": {}}
    asked = arguments(tmp_path, WORKLOAD | workload, VARIANT)
    asked["run"]["training"]["search_path"] = [str(tmp_path)]
    environment = environment_of(seed=1, deterministic=True, threads=1)
    launch("twinrun.training.train:train", asked, environment)
    manifest = read_run(tmp_path / "run.json")
    assert manifest["steps"] == 6
    assert (tmp_path / "weights.safetensors").exists()
