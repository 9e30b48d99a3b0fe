"""A trial that did not log what it is to be ranked by says so when it has ended."""

import pytest
from example_trainings import VARIANT, WORKLOAD, arguments

from twinrun.process.fresh_process import rebuilt
from twinrun.training.train import train
from twinrun.training.trial_metric import say_if_not_logged


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trial")
    asked = rebuilt(train, arguments(folder, WORKLOAD | {"epochs": 1}, VARIANT))["run"]
    train(asked)
    return asked


@pytest.mark.one_in(2)
@pytest.mark.parametrize("metric", [None, "train_loss", "val_loss", "test_loss"])
def test_what_is_logged_is_not_spoken_of(trial, metric, capfd):
    say_if_not_logged(trial, metric)
    assert capfd.readouterr().err == ""


def test_what_is_not_logged_is_said_with_what_is(trial, capfd):
    say_if_not_logged(trial, "accuracy")
    said = capfd.readouterr().err
    assert "sweep.metric: 'accuracy' is not logged by this trial" in said
    assert "logs test_loss, train_loss, val_loss;" in said
