"""A forked process is to a user's module what a new one is."""

import multiprocessing

import pytest

from twinrun.process.forked import messages_of


def _set(send):
    multiprocessing.set_start_method("spawn")
    send(multiprocessing.get_start_method())


def _ask(send):
    send(multiprocessing.get_start_method(allow_none=True))


@pytest.mark.parametrize(("function", "told"), [(_set, "spawn"), (_ask, None)])
def test_nobody_has_said_how_processes_are_started(function, told):
    """Red before: "context has already been set", of a module that sets it where it is imported."""
    assert list(messages_of(function, every=60)) == [told]
