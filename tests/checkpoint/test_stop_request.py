"""Requests to stop, as forks of a training hear them."""

import multiprocessing
import os
import signal
import time

import pytest
import pytorch_lightning as pl
from torch.utils.data._utils import worker

from twinrun.checkpoint.stop_request import Stop

FORK = multiprocessing.get_context("fork")
HEARS = signal.SIGINT, signal.SIGTERM


@pytest.fixture
def stop(tmp_path):
    """Listen, and take back the handlers of before."""
    before = {number: signal.getsignal(number) for number in HEARS}
    yield Stop(tmp_path / "STOP")
    for number, handler in before.items():
        signal.signal(number, handler)


def wait(is_ready, is_worker):
    worker._worker_info = "a data worker's" if is_worker else None
    is_ready.set()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        time.sleep(0.05)


def started(*, is_worker):
    is_ready = FORK.Event()
    process = FORK.Process(target=wait, args=(is_ready, is_worker))
    process.start()
    assert is_ready.wait(60)
    return process


@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", HEARS)
def test_a_fork_ends_that_is_asked_to(stop, number):
    """Red before: `Pool.terminate` waited for good, as in `prepare_data` with a `Pool` in it."""
    process = started(is_worker=False)
    os.kill(process.pid, number)
    process.join()
    assert process.exitcode == (-number if number == signal.SIGTERM else 1)
    assert stop.heard is None


def handled(_):
    return signal.getsignal(signal.SIGTERM), signal.pthread_sigmask(signal.SIG_BLOCK, ())


def masked(_):
    return signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.parametrize("is_fitting", [False, True])
def test_no_code_of_pythons_stands_between_a_fork_and_its_end(stop, is_fitting):
    """Red before: a fork took note of SIGTERM, and slept on where that came just ahead of a wait.

    In one of some 60 pools; Lightning's handler, which is there in `on_fit_start`, notes it too.
    """
    if is_fitting:
        trainer = pl.Trainer(logger=False, enable_checkpointing=False)
        trainer._signal_connector.register_signal_handlers()
    before = handled(None)
    with FORK.Pool(1) as pool:
        assert pool.map(handled, [None]) == [(signal.SIG_DFL, before[1])]
    assert handled(None) == before
    assert before[0] != signal.SIG_DFL


def test_a_fork_keeps_what_a_user_has_set(stop):
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with FORK.Pool(1) as pool:
        kept = pool.map(handled, [None])
        signal.signal(signal.SIGTERM, before)
        pool.close()
        pool.join()
    assert kept[0][0] == signal.SIG_IGN


class Refuses:
    """A handler that can be asked for nothing else."""

    def __call__(self, *_):
        pass

    def __getattr__(self, name):
        raise ValueError(name)


def test_a_fork_hears_signals_whatever_the_handler_is(stop):
    """Red at 93a20397: the signal stayed held back in it."""
    before = signal.signal(signal.SIGTERM, Refuses())
    with FORK.Pool(1) as pool:
        held_back = pool.map(masked, [None])
        signal.signal(signal.SIGTERM, before)
        pool.close()
        pool.join()
    assert held_back == [set()]


@pytest.mark.timeout(60)
def test_a_pool_ends(stop):
    with FORK.Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
    assert stop.heard is None


def test_data_workers_go_on_until_the_step_is_done(stop):
    """Ctrl-C sends SIGINT to all processes."""
    process = started(is_worker=True)
    os.kill(process.pid, signal.SIGINT)
    process.join(timeout=0.5)
    assert process.is_alive()
    process.kill()
    process.join()


def test_the_training_itself_takes_note(stop):
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop.heard == "SIGTERM"
