"""What the machine was busy with: counters of Linux, and differences of them."""

import threading

import pytest

from twinrun.process.machine_load import Load, load, others, waited


def counted(folder, **threads):
    for name, text in threads.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "schedstat").write_text(text)
    return load(folder).waited


def test_the_run_delay_of_all_threads_is_summed_up(tmp_path):
    assert counted(tmp_path, a="100 2000000000 3\n", b="100 500000000 3\n") == 2.5


@pytest.mark.parametrize("threads", [{}, {"a": "0\n"}, {"a": ""}])
def test_a_system_that_counts_none_says_so(tmp_path, threads):
    assert counted(tmp_path / "missing", **threads) is None


def test_differences():
    before, after = Load(1.0, 100.0, 50.0), Load(3.5, 130.0, 60.0)
    assert waited(before, after) == 2.5
    assert others(before, after, 10.0) == 2.0
    # Rounded counters, or a child that was taken over.
    assert others(before, Load(0.0, 101.0, 60.0), 10.0) == 0.0
    assert waited(before, Load(0.0, 101.0, 60.0)) == 0.0
    assert waited(Load(None, 0.0, 0.0), after) is None


def test_what_this_process_does_is_its_own():
    before = load()
    end = threading.Event()
    thread = threading.Thread(target=lambda: [sum(range(1000)) for _ in iter(end.is_set, True)])
    thread.start()
    while load().own < before.own + 0.1:
        sum(range(100_000))
    end.set()
    thread.join()
    after = load()
    assert after.busy >= before.busy + 0.05
    assert after.waited is None or after.waited >= 0
