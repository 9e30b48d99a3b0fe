"""An import that calls a Trainer ends there, and a Trainer is what it was afterwards."""

import importlib
import subprocess
import sys

import pytest
import pytorch_lightning as pl

from twinrun.process.no_training import TrainsAtImportError, without_training

AFTER = """
import sys
from twinrun.process.no_training import without_training
from twinrun.process.one_lightning import unite
unite()
sys.path.insert(0, sys.argv.pop())
try:
    with without_training():
        import training_script
except Exception as error:
    print(error)
assert "pytorch_lightning" in sys.modules
from pytorch_lightning import Trainer
print(Trainer.fit.__code__.co_filename.rpartition("/")[2], len(sys.meta_path))
"""


@pytest.mark.parametrize("method", ["fit", "validate", "test", "predict"])
def test_a_call_is_refused_with_its_line_and_what_to_do(tmp_path, monkeypatch, method):
    """The line is the script's own, not that of a function that it calls."""
    (tmp_path / f"calls_{method}.py").write_text(
        f"import pytorch_lightning as pl\n\ndef main():\n    pl.Trainer(logger=False).{method}()\n"
        f"\nmain()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    original = getattr(pl.Trainer, method)
    with pytest.raises(TrainsAtImportError) as raised, without_training():
        importlib.import_module(f"calls_{method}")
    assert str(raised.value) == (
        f"importing calls_{method} calls Trainer.{method} (calls_{method}.py, line 6), as a script "
        f'does; put what the script does under `if __name__ == "__main__":`'
    )
    assert getattr(pl.Trainer, method) is original


@pytest.mark.parametrize("package", ["pytorch_lightning", "lightning.pytorch"])
@pytest.mark.exhaustive
def test_a_trainer_that_the_script_imports_itself_is_refused_too(tmp_path, package):
    """Of both packages, where neither has been imported before."""
    (tmp_path / "training_script.py").write_text(
        f"from {package} import Trainer\nTrainer(logger=False).fit(None)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", AFTER, str(tmp_path)], capture_output=True, text=True, check=True
    )
    sentence, after = [line for line in done.stdout.splitlines() if line]
    assert sentence.startswith("importing training_script calls Trainer.fit (training_script.py, ")
    assert after.startswith("trainer.py ")
