"""A metric that no line of the user's code can log is known early; in doubt it may be logged."""

import pytest
from small import Small

from twinrun.training.logged_names import may_be_logged


@pytest.fixture
def may_log(tmp_path):
    """Say of a line of code whether it may log `val_score`."""

    def ask(line, module=None):
        file = tmp_path / "model.py"
        file.write_text(
            f"import math\n\nclass Net:\n    def step(self, x, name):\n        {line}\n"
        )
        return may_be_logged("val_score", module or Small(), [str(file)])

    return ask


@pytest.mark.parametrize(
    "line",
    [
        'self.log("val_score", x)',
        'self.log(name="val_score", value=x)',
        'self.log(f"{name}_score", x)',
        'self.log(f"val_{name}", x)',
        "self.log(name, x)",
        'self.log_dict({"loss": x, "val_score": x})',
        "self.log_dict(x)",
        "self.log_dict({name: x})",
        "log = self.log",
        'pl_module.log("val_score", x)',
        'self.log("val", x) if x else self.log("val" + name, x)',
    ],
)
def test_what_may_log_it_is_seen(may_log, line):
    assert may_log(line)


@pytest.mark.parametrize(
    "line",
    [
        'self.log("val_scor", x)',
        'self.log(f"{name}_loss", x)',
        'self.log_dict({"loss": x})',
        "x = math.log(x, 2)",
        'logger.log(name, "val_score")',
        "pass",
    ],
)
def test_what_cannot_log_it_is_seen(may_log, line):
    assert not may_log(line)


def test_the_names_of_lightning_belong_to_it(tmp_path):
    (tmp_path / "model.py").write_text('self.log("loss", x, on_step=True, on_epoch=True)\n')
    assert may_be_logged("loss_epoch", Small(), [str(tmp_path / "model.py")])


def test_a_class_of_an_installed_package_may_log_anything(may_log):
    class Installed(Small):
        """As if it lay in site-packages."""

    Installed.__module__ = "xxhash"
    assert may_log("pass", Installed())
