"""Files of another training that a process reads, and those that are its own or nobody's."""

import os
import sqlite3
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import pytest

from twinrun.process.opened_entries import (
    REHEARSAL,
    changing,
    files_of,
    forget_trainings,
    training_of,
)
from twinrun.process.opened_log import OpenedLog
from twinrun.process.read_notes import ReadFiles
from twinrun.process.shared_files import BEGAN, LOG, WHO
from twinrun.process.users_files import is_theirs, left_out

# Reads a line of Python a time, and says that it has done it.
PROCESS = """
import os, sys
from twinrun.process import shared_files
shared_files.watch()
own = os.path.abspath("results/runs/own")
shared_files.leave_out([own], but=own + "/root")
for line in sys.stdin:
    exec(line)
    print(flush=True)
"""


class Process:
    """A process of a training, which does what it is told."""

    def __init__(self, folder, who, attempt="1", began=None, *, is_under_way=True):
        began = {} if began is None else {BEGAN: str(began)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROCESS],
            cwd=folder,
            env={**os.environ, LOG: str(folder / "log"), WHO: f"{who}/{attempt}", **began},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.do("import os, pathlib, shutil, sqlite3, time")
        if is_under_way:
            self.takes_steps()

    def takes_steps(self):
        time.sleep(0.05)  # behind what was written before, by the clock of the files
        self.do("shared_files.under_way()")

    def do(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "\n", line

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()


WRITE, READ = "open('best.txt', 'w').write('2')", "open('best.txt').read()"


def disturbed_by(folder, *steps, before=()):
    """Let two trainings do these in turn, each (which one, what); say what disturbed the first."""
    with Process(folder, "other") as other:
        for line in before:
            other.do(line)
        with Process(folder, "own") as own:
            for who, line in steps:
                {"own": own, "other": other}[who].do(line)
    assert files_of(folder / "log", "other/1", "disturbed", 0) == []
    return names_of(folder, "disturbed")


def names_of(folder, entry):
    return [Path(name).name for name in files_of(folder / "log", "own/1", entry, 0)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "write",
    [
        WRITE,
        "pathlib.Path('best.txt').write_bytes(b'2')",
        "open('best.txt', 'a').write('2')",
        "os.close(os.open('best.txt', os.O_WRONLY | os.O_CREAT))",
        "open('new.txt', 'w').write('2'); os.replace('new.txt', 'best.txt')",
        "open(os.path.abspath('best.txt').encode(), 'wb').write(b'2')",
        "pathlib.Path('o').touch(); os.symlink('o', 'new.txt'); os.replace('new.txt', 'best.txt')",
        "os.remove('best.txt'); open('best.txt', 'wb')",
        "os.mkdir('results'); open('results/../best.txt', 'w').write('2')",
        "if not os.fork(): open('best.txt', 'w').write('2'); os._exit(0)",
    ],
)
def test_what_another_training_has_written_meanwhile_disturbs(tmp_path, write):
    (tmp_path / "best.txt").touch()
    if "fork" in write:
        write = f"{write.partition(':')[0]}: {write.partition(': ')[2]}"
    steps = [("own", WRITE), ("other", write), ("own", "time.sleep(0.2)")]
    assert disturbed_by(tmp_path, *steps, ("own", READ)) == ["best.txt"]


@pytest.mark.parametrize(
    "read", ["open('best.txt', 'r+')", "open('best.txt', 'a+')", "sqlite3.connect('best.txt')"]
)
def test_so_does_what_is_opened_to_be_changed(tmp_path, read):
    assert disturbed_by(tmp_path, ("other", WRITE), ("own", read)) == ["best.txt"]


@pytest.mark.parametrize(
    "change",
    ["os.replace('new', 'folder')", "shutil.rmtree('folder'); shutil.copytree('new', 'folder')"],
)
def test_so_does_a_file_in_a_folder_that_was_exchanged(tmp_path, change):
    for name in ("new", "folder"):
        (tmp_path / name).mkdir()
    (tmp_path / "new/best.txt").touch()
    steps = [("other", change), ("own", READ.replace("best", "folder/best"))]
    assert disturbed_by(tmp_path, *steps) == ["best.txt"]


def test_so_does_a_folder_that_it_writes_in_and_another_has_removed(tmp_path):
    """Red before: it failed, and that counted as its own failure."""
    write = WRITE.replace("best", "x/best")
    failing = f"exec('try: ' + {write!r} + chr(10) + 'except OSError: pass')"
    made = ("own", "os.mkdir('x')")
    assert disturbed_by(tmp_path, made, ("own", "os.rmdir('x')"), ("own", failing)) == []
    steps = [made, ("other", "shutil.rmtree('x')"), ("own", failing)]
    assert disturbed_by(tmp_path, *steps) == ["best.txt"]


@pytest.mark.parametrize(
    ("read", "is_disturbed"),
    [
        ("held = mmap.mmap(os.open('best.txt', os.O_RDONLY), 0, access=mmap.ACCESS_READ)", True),
        ("held = open('best.txt')", True),
        ("held = sqlite3.connect('best.txt'); held.execute('pragma user_version')", True),
        ("open('best.txt', 'rb').read()", False),
        ("held = open('best.txt'); held.close()", False),
        # Red at 11f271a7: who wrote it as a whole was not taken for one that reads it.
        ("held = open('best.txt', 'w+b')", True),
        (
            "f = open('best.txt', 'w+b'); f.write(b'1'); f.flush(); "
            "held = mmap.mmap(f.fileno(), 0); f.close()",
            True,
        ),
        # A log that a training adds to, and looks into once.
        ("held = open('best.txt', 'a'); open('best.txt').close()", False),
    ],
)
def test_what_it_holds_while_another_writes_it_disturbs(tmp_path, read, is_disturbed):
    """Red before: an array that was mapped was the other training's from then on, in silence."""
    (tmp_path / "best.txt").write_bytes(b"")
    sqlite3.connect(tmp_path / "best.txt").execute("create table numbers (number int)")
    steps = [("own", "import mmap"), ("own", read), ("own", "time.sleep(0.1)"), ("other", WRITE)]
    found = disturbed_by(tmp_path, *steps, ("own", "shared_files.found()"))
    assert found == ["best.txt"] * is_disturbed


HOLDS = """
import multiprocessing
def hold(opened, end):
    global held  # as a worker's arguments hold its dataset
    held = open('best.txt')
    opened.set()
    end.wait()
context = multiprocessing.get_context('fork')
opened, end = context.Event(), context.Event()
worker = context.Process(target=hold, args=(opened, end))
worker.start()
opened.wait()
"""


@pytest.mark.parametrize("is_ended", [True, False])
def test_so_does_what_its_data_workers_hold(tmp_path, is_ended):
    """Red at 11f271a7: only the training's own process looked at what it held, as it ended."""
    (tmp_path / "best.txt").write_text("1")
    steps = [("own", f"exec({HOLDS!r})"), ("own", "time.sleep(0.1)"), ("other", WRITE)]
    end = ("own", "end.set(); worker.join()")
    found = ("own", "shared_files.found()")
    steps += [end, found] if is_ended else [found, end]
    assert disturbed_by(tmp_path, *steps) == ["best.txt"]


def test_what_data_workers_add_to_alone_disturbs_nobody(tmp_path):
    adds = HOLDS.replace("open('best.txt')", "open('best.txt', 'a')")
    steps = [("own", f"exec({adds!r})"), ("own", "time.sleep(0.1)"), ("other", WRITE)]
    steps += [("own", "shared_files.found()"), ("own", "end.set(); worker.join()")]
    assert disturbed_by(tmp_path, *steps) == []


@pytest.mark.parametrize("mode", ["r+b", "rb"])
@pytest.mark.parametrize(
    ("end", "is_disturbed"),
    [("file.seek(0); file.write(b'3'); file.flush()", True), ("held.close()", False)],
)
def test_who_opens_what_another_has_open_and_writes_later_is_disturbed(
    tmp_path, mode, end, is_disturbed
):
    """Red at 51bbcb6e: it was trained on what the other wrote into an array that both map."""
    (tmp_path / "best.txt").write_text("1")
    steps = [
        ("other", "file = open('best.txt', 'r+b')"),
        ("own", f"held = open('best.txt', {mode!r})"),
    ]
    steps += [("own", "time.sleep(0.1)"), ("other" if is_disturbed else "own", end)]
    found = disturbed_by(tmp_path, *steps, ("own", "shared_files.found()"))
    assert found == ["best.txt"] * is_disturbed


NAMES = [
    *(":memory:", "", "file::memory:?cache=shared", "file:x?mode=memory&cache=shared"),
    *("file:best.txt?mode=ro", "file:best%2Etxt?immutable=1"),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_data_base_in_a_file_or_is_read_alone_disturbs_nobody(tmp_path, name):
    """Red before: each was the path of a file that is gone, or was written."""
    sqlite3.connect(tmp_path / "best.txt").execute("create table numbers (number int)")
    time.sleep(0.05)
    opened = f"sqlite3.connect({name!r}, uri=True).close()"
    assert disturbed_by(tmp_path, ("own", opened), ("other", opened), ("own", opened)) == []


@pytest.mark.parametrize("name", ["best.txt?mode=ro", "best%2Etxt", "//localhost{}/best.txt?x=1"])
def test_a_data_base_has_a_path_in_its_uri(tmp_path, name):
    """Red before: what another training wrote in it was in another file."""
    name = f"file:{name.format(tmp_path)}"
    write = "d = sqlite3.connect('best.txt'); d.execute('create table t (n)'); d.close()"
    read = f"sqlite3.connect({name!r}, uri=True).close()"
    assert disturbed_by(tmp_path, ("other", write), ("own", read)) == ["best.txt"]


def test_what_two_make_and_close_disturbs_nobody(tmp_path):
    """Red at d6b48169: a figure that each training draws (`savefig`), or `numpy.savez`."""
    with Process(tmp_path, "own") as own, Process(tmp_path, "other") as other:
        for process in (other, own, other):
            process.do("open('best.txt', 'w+b').write(b'1')")
        own.do("shared_files.found()")
    assert names_of(tmp_path, "disturbed") == []


def test_who_makes_what_another_may_still_fill_is_disturbed_while_it_keeps_it(tmp_path):
    """Red at 03f7facb: it was trained on the rows that the other wrote into its map."""
    with Process(tmp_path, "own") as own, Process(tmp_path, "other") as other:
        other.do("held = open('best.txt', 'w+b')")
        own.do("held = open('best.txt', 'w+b'); time.sleep(0.05); held.write(b'2'); held.flush()")
        own.do("shared_files.found()")
    assert names_of(tmp_path, "disturbed") == ["best.txt"]


def test_a_temporary_file_is_no_change_to_its_folder(tmp_path):
    """Red before: all in the folder was another training's, whose temporary file was there."""
    (tmp_path / "best.txt").write_text("1")
    make = "import tempfile; tempfile.NamedTemporaryFile('w', dir='.', delete=False).write('1')"
    steps = [("own", "time.sleep(0.05)"), ("other", make), ("own", READ)]
    assert disturbed_by(tmp_path, *steps) == []


def test_who_begins_anew_is_not_disturbed_by_what_was_written_between_its_attempts(tmp_path):
    """Red before: a training whose code was edited behind a kill was trained twice, then alone."""
    began = time.time_ns()
    with Process(tmp_path, "other") as other:
        other.do(WRITE)
    with Process(tmp_path, "own", attempt="2", began=began) as own:
        own.do("shared_files.begins_anew()")
        own.do(READ)
    assert names_of(tmp_path, "disturbed") == []
    assert names_of(tmp_path, "found") == ["best.txt"]


def test_who_only_opens_what_another_holds_does_not_disturb(tmp_path):
    (tmp_path / "best.txt").write_text("1")
    steps = [("own", "held = open('best.txt')"), ("own", "time.sleep(0.1)")]
    steps += [("other", "open('best.txt', 'r+').close()"), ("own", "shared_files.found()")]
    assert disturbed_by(tmp_path, *steps) == []


def test_threads_that_read_the_log_at_once_lose_nothing_of_it(tmp_path, monkeypatch):
    """Red before: each of two added what it had read to the place where the next one begins."""
    path, read = tmp_path / "log", os.pread
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    log = OpenedLog(path, descriptor, "own/1", 0, str(tmp_path), (), ReadFiles(None, ""))
    os.write(descriptor, b"other/1\twritten\t5\t/one\n")

    def interrupted(*arguments):
        found = read(*arguments)
        monkeypatch.setattr(os, "pread", read)
        log.read_on()  # as another thread does meanwhile
        return found

    monkeypatch.setattr(os, "pread", interrupted)
    log.read_on()
    os.write(descriptor, b"other/1\twritten\t6\t/two\n")
    log.read_on()
    os.close(descriptor)
    assert log.by.others == {"/one", "/two"}


def test_many_files_that_were_made_for_all_hide_none_that_trainings_change(tmp_path):
    """Red before: of a hundred files that were found none behind them was written down."""
    names = [f"{number}.npy" for number in range(120)]
    make = f"[open(name, 'w').write('1') for name in {names}]"
    with Process(tmp_path, "other", is_under_way=False) as other:
        other.do(make)
        other.takes_steps()
        other.do("open('last.pt', 'w').write('1')")
    with Process(tmp_path, "own") as own:
        own.do(f"[open(name).read() for name in {names}]")
        own.do("open('last.pt').read()")
    assert "last.pt" in names_of(tmp_path, "found")


@pytest.mark.parametrize(
    ("folder", "file", "is_watched"),
    [
        (tempfile.gettempdir() + "/twinrun-demo", "best.pt", True),
        (tempfile.gettempdir() + "/project", "../twinrun-1/kernel", False),
        (sys.base_prefix + "/src/app", "best.pt", True),
        (sys.prefix, "best.pt", True),
        (sys.prefix, sysconfig.get_path("purelib") + "/torch/x.txt", False),
        (sys.prefix, sysconfig.get_path("stdlib") + "/x.txt", False),
        ("/project", "/proc/meminfo", False),
        ("/project", "/dev/null", False),
        ("/project", "/dev/shm/x.npy", True),  # noqa: S108 - red at d6b48169: data may lie there
    ],
)
def test_a_project_may_lie_anywhere(tmp_path, folder, file, is_watched):
    """Red before: in a folder of an installation, or of a name of ours, no file was watched."""
    log = OpenedLog(tmp_path / "log", -1, "own/1", 0, folder, left_out(folder), ReadFiles(None, ""))
    assert is_theirs(os.path.normpath(Path(folder, file)), log) == is_watched


def test_a_resumed_training_finds_nothing_that_changed_since_it_first_began(tmp_path):
    """Red before: what another one had written until then was that of an earlier training."""
    with Process(tmp_path, "other") as other:
        other.do(WRITE.replace("best", "cache"))
        began = time.time_ns()
        other.do(WRITE)
    with Process(tmp_path, "own") as first:
        first.do(WRITE.replace("best", "own"))
        first.do(WRITE.replace("best", "again"))
    with Process(tmp_path, "own", attempt="2", began=began) as second:
        second.do(WRITE.replace("best", "again"))
        for name in ("best", "cache", "own", "again"):
            second.do(READ.replace("best", name))
    assert names_of(tmp_path, "disturbed") == ["best.txt"]
    assert names_of(tmp_path, "found") == ["cache.txt"]
    assert names_of(tmp_path, "stale") == ["own.txt"]


HISTORY = "open('best.txt', 'a').write('3')"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("prepared", "written", "prepared_again", "written_again", "is_stale"),
    [
        (WRITE, HISTORY, WRITE, HISTORY, True),  # a header, then rows
        (HISTORY, HISTORY, HISTORY, HISTORY, True),  # which are there twice
        (WRITE, WRITE, WRITE, "", True),  # an average that each epoch changes
        ("", WRITE, "", HISTORY, True),
        ("file = open('best.txt', 'w')", "file.write('2'); file.flush()", WRITE, "", True),
        ("os.mkdir('x')", "open('x/best.txt', 'w')", "shutil.rmtree('x'); os.mkdir('x')", "", True),
        (WRITE, WRITE, WRITE, WRITE, False),  # the best weights, found once more
        ("", WRITE, "", "open('new', 'w'); os.replace('new', 'best.txt')", False),
        (WRITE, "", WRITE, "", False),  # what the training begins with
        (WRITE, "", "", "", False),
        (WRITE, HISTORY, WRITE, WRITE, False),
    ],
)
@pytest.mark.parametrize("is_shortened", [False, True])
def test_what_an_earlier_attempt_wrote_in_its_steps_is_stale_until_it_is_written_as_a_whole(
    tmp_path, prepared, written, prepared_again, written_again, is_stale, is_shortened
):
    """Red before: a file was its own again that it had begun anew, or to which it had added."""
    began = time.time_ns()
    read = READ.replace("best.txt", "x/best.txt" if "mkdir" in prepared else "best.txt")
    with Process(tmp_path, "own", is_under_way=False) as first:
        first.do(prepared)
        first.takes_steps()
        first.do(written)
    if is_shortened:
        forget_trainings(tmp_path / "log")
    with Process(tmp_path, "own", attempt="2", began=began, is_under_way=False) as second:
        second.do(prepared_again)
        second.takes_steps()
        second.do(written_again)
        second.do(read_if_there(read))
    assert names_of(tmp_path, "stale") == ["best.txt"] * is_stale


def read_if_there(read):
    return f"exec('try: ' + {read!r} + chr(10) + 'except OSError: pass')"


@pytest.mark.parametrize(
    ("again", "is_stale"),
    [
        ("file = open('best.txt', 'w+')", True),
        ("file = open('best.txt', 'w')", False),  # a log
        ("open('best.txt', 'w+').close()", False),
    ],
)
def test_what_is_begun_anew_and_read_by_who_holds_it_is_stale(tmp_path, again, is_stale):
    """Red at 51bbcb6e: a resumed training averaged its last losses alone, in silence."""
    began = time.time_ns()
    with Process(tmp_path, "own", is_under_way=False) as first:
        first.do("file = open('best.txt', 'w+')")
        first.takes_steps()
        first.do("file.write('2'); file.flush()")
    with Process(tmp_path, "own", attempt="2", began=began, is_under_way=False) as second:
        second.do(again)
        second.takes_steps()
        second.do("shared_files.found()")
    assert names_of(tmp_path, "stale") == ["best.txt"] * is_stale


@pytest.mark.parametrize(
    ("written", "behind", "again", "is_stale"),
    [
        (WRITE, "", "", False),  # as the checkpoint found it
        (WRITE, WRITE, "", True),
        (HISTORY, "", HISTORY, False),
        (HISTORY, HISTORY, HISTORY, True),
        (WRITE, "os.remove('best.txt')", "", True),
    ],
)
def test_what_was_written_before_the_checkpoint_is_as_it_was(
    tmp_path, written, behind, again, is_stale
):
    """Red before: data that were kept in the first epoch cost a resumed training all its epochs."""
    began = time.time_ns()
    with Process(tmp_path, "own") as first:
        first.do(written)
        time.sleep(0.1)
        (tmp_path / "epoch1.ckpt").touch()
        time.sleep(0.1)
        first.do(behind)
    with Process(tmp_path, "own", attempt="2", began=began, is_under_way=False) as second:
        second.do("shared_files.goes_on_from(pathlib.Path('epoch1.ckpt'))")
        second.takes_steps()
        second.do(again)
        second.do(read_if_there(READ))
    assert names_of(tmp_path, "stale") == ["best.txt"] * is_stale


MOVE = "open('x', 'w').write('2'); os.replace('x', 'best.txt')"
TRIED = "exec('try: os.remove(\"best.txt\")' + END)"


@pytest.mark.parametrize(
    "steps",
    [
        [("other", WRITE), ("own", "os.rename('best.txt', 'a'); open('a').read()")],
        [("own", WRITE), ("other", WRITE), ("own", "os.link('best.txt', 'a'); open('a').read()")],
        [("own", WRITE), ("other", "os.remove('best.txt')"), ("own", TRIED)],
        [("other", MOVE), ("own", 'exec(\'try: os.rename("x", "y")\' + END)')],
    ],
)
def test_what_is_moved_or_removed_by_both_disturbs(tmp_path, steps):
    """Red before: best weights that were moved were another run's; a removal failed by itself."""
    (tmp_path / "best.txt").touch()
    end = "END = chr(10) + 'except OSError: pass'"
    assert disturbed_by(tmp_path, ("own", end), *steps) in (["best.txt"], ["x"])


@pytest.mark.parametrize("removed", ["pathlib.Path('best.txt').unlink(missing_ok=True)", TRIED])
@pytest.mark.parametrize("before", [True, False])
def test_to_clear_what_it_never_wrote_disturbs_nobody(tmp_path, removed, before):
    """Red before: each table of scores that a training begins anew had it trained again, alone."""
    end = "END = chr(10) + 'except OSError: pass'"
    steps = [("own", end), ("other", "pathlib.Path('best.txt').unlink(missing_ok=True)")]
    steps += [("own", removed), ("own", "open('best.txt', 'a').write('2')")]
    assert disturbed_by(tmp_path, *steps, before=[WRITE] * before) == []


def test_a_folder_that_is_moved_is_read(tmp_path):
    (tmp_path / "folder").mkdir()
    steps = [("other", WRITE.replace("best", "folder/best")), ("own", "os.rename('folder', 'a')")]
    assert disturbed_by(tmp_path, *steps) == ["folder"]


@pytest.mark.parametrize("before", [True, False])
def test_who_opens_to_change_and_changes_nothing_disturbs_nobody(tmp_path, before):
    """Red before: a data base that all read had each training done twice, and alone."""
    (tmp_path / "best.txt").write_text("1")
    time.sleep(0.05)
    opened = ["open('best.txt', 'r+').read()", "sqlite3.connect('best.txt').close()"]
    steps = [] if before else [("other", each) for each in opened]
    assert disturbed_by(tmp_path, *steps, ("own", opened[0]), before=opened if before else ()) == []
    assert names_of(tmp_path, "found") == []


def test_who_has_had_a_file_open_since_before_disturbs(tmp_path):
    """Red before: what it wrote behind the beginning of another was an earlier training's."""
    write = "file.write('3'); file.flush()"
    before = ["file = open('best.txt', 'a')", write]
    assert disturbed_by(
        tmp_path, ("own", "time.sleep(.1)"), ("other", write), ("own", READ), before=before
    ) == ["best.txt"]


def test_what_the_killed_attempt_added_to_is_no_data_of_all(tmp_path):
    """Red before: "no training has changed it", of a table that holds a killed attempt's rows."""
    with Process(tmp_path, "own") as first:
        first.do(HISTORY)
    with Process(tmp_path, "own", attempt="2") as second:
        second.do(HISTORY)
        second.do(READ)
    assert names_of(tmp_path, "found") == ["best.txt"]
    file = str(tmp_path / "best.txt")
    assert changing(tmp_path / "log", [file], "fourth", 0) == {file}


@pytest.mark.parametrize(
    ("other", "own"),
    [
        (
            "sqlite3.connect(pathlib.Path('best.txt')).execute('create table t (n)')",
            "open('best.txt', 'rb').read()",
        ),
        (WRITE, "sqlite3.connect(pathlib.Path('best.txt')).close()"),
        ("os.remove(pathlib.Path('best.txt'))", read_if_there(READ)),
    ],
)
def test_a_path_is_heard_as_its_text_is(tmp_path, other, own):
    """Red before: the audit event of SQLite has the path itself."""
    (tmp_path / "best.txt").touch()
    assert disturbed_by(tmp_path, ("other", other), ("own", own)) == ["best.txt"]


def test_a_folder_of_results_and_one_that_is_listed_are_nobodys(tmp_path):
    """Red before: each later training of a name was disturbed by its own checkpoints' folder."""
    (tmp_path / "results/runs/own").mkdir(parents=True)
    for who in ("other", "own"):
        with Process(tmp_path, who) as process:
            time.sleep(0.1)
            process.do("os.makedirs('results/runs/own/x'); os.makedirs('folder/x')")
            process.do("shutil.rmtree(pathlib.Path('results/runs/own'))")
            process.do("os.makedirs('results/runs/own'); shutil.rmtree('folder')")
    assert names_of(tmp_path, "disturbed") == names_of(tmp_path, "found") == []


def test_what_another_added_between_two_attempts_disturbs(tmp_path):
    """Red before: only who had written last was known, and that was an earlier attempt."""
    began = time.time_ns()
    with Process(tmp_path, "other") as other:
        other.do(HISTORY)
    with Process(tmp_path, "own") as first:
        first.do(HISTORY)
    with Process(tmp_path, "own", attempt="2", began=began) as second:
        second.do(READ)
    assert names_of(tmp_path, "disturbed") == ["best.txt"]


def test_a_file_that_is_gone_is_none_of_others(tmp_path):
    with Process(tmp_path, "other") as other:
        other.do(WRITE)
    (tmp_path / "best.txt").unlink()
    with Process(tmp_path, "own") as own:
        own.do(read_if_there(READ))
    assert names_of(tmp_path, "disturbed") == names_of(tmp_path, "found") == []


@pytest.mark.parametrize("is_shortened", [False, True])
def test_who_was_disturbed_before_it_was_killed_is_so_still(tmp_path, is_shortened):
    """Red before: an attempt behind a checkpoint knew nothing of what the one before had read."""
    assert disturbed_by(tmp_path, ("other", WRITE), ("own", READ)) == ["best.txt"]
    if is_shortened:
        forget_trainings(tmp_path / "log")
    assert names_of(tmp_path, "disturbed") == ["best.txt"]
    assert files_of(tmp_path / "log", "own/2", "disturbed", time.time_ns()) == []


def test_what_was_found_once_may_be_anothers_later(tmp_path):
    """Red before: a file that it had read was never asked for again."""
    steps = [("own", READ), ("own", WRITE), ("other", WRITE), ("own", READ)]
    assert disturbed_by(tmp_path, *steps, before=[WRITE]) == ["best.txt"]
    assert names_of(tmp_path, "found") == ["best.txt"]


def test_the_folder_that_a_trainer_is_given_is_watched(tmp_path):
    (tmp_path / "results/runs/own/root").mkdir(parents=True)
    name = "results/runs/own/root/best"
    with Process(tmp_path, "own") as first:
        first.do(WRITE.replace("best", name))
    with Process(tmp_path, "own", attempt="2", began=0) as second:
        second.do(READ.replace("best", name))
    assert names_of(tmp_path, "stale") == ["best.txt"]


def test_a_file_that_many_workers_read_is_written_down_once(tmp_path):
    """Red before: by each worker of each epoch."""
    with Process(tmp_path, "other") as other:
        other.do(WRITE)
    with Process(tmp_path, "own") as own:
        fork = "if not os.fork(): open('best.txt').read(); os._exit(0)"
        for _ in range(3):
            own.do(fork)
            own.do("os.wait()")
    assert (tmp_path / "log").read_text().count("found") == 1


def test_a_fork_belongs_to_its_training(tmp_path):
    fork = "if not os.fork(): open('best.txt', 'w').write('2'); os._exit(0)"
    steps = [("own", fork), ("own", "os.wait()"), ("own", READ)]
    assert disturbed_by(tmp_path, *steps) == []
    steps = [("other", WRITE), ("own", fork.replace("'w').write('2')", "'r').read()"))]
    assert disturbed_by(tmp_path, *steps, ("own", "os.wait()")) == ["best.txt"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("steps", "before"),
    [
        ([("own", WRITE), ("own", READ)], []),
        ([("own", READ)], [WRITE]),  # before it began
        ([("own", READ), ("other", WRITE)], []),
        ([("other", WRITE), ("own", WRITE)], []),  # a log that both write
        ([("other", WRITE), ("own", "os.stat('best.txt')")], []),
        (
            [
                ("other", "pathlib.Path('x').mkdir(); pathlib.Path('x/best.txt').touch()"),
                ("other", "shutil.rmtree('x')"),
                ("own", READ),
            ],
            [],
        ),
        *(
            (
                [
                    ("other", WRITE.replace("best.txt", name)),
                    ("own", READ.replace("best.txt", name)),
                ],
                [],
            )
            for name in (".cache", "__pycache__/mine.nbi", "results/runs/own/best.txt")
        ),
    ],
)
def test_nothing_else_does(tmp_path, steps, before):
    (tmp_path / "best.txt").touch()
    (tmp_path / "results/runs/own").mkdir(parents=True)
    (tmp_path / "__pycache__").mkdir()
    assert disturbed_by(tmp_path, *steps, before=before) == []


@pytest.mark.parametrize("is_shortened", [False, True])
def test_what_an_earlier_training_has_left_is_found(tmp_path, is_shortened):
    with Process(tmp_path, "other") as other:
        other.do(WRITE)
        other.do(WRITE.replace("best", "gone"))
    (tmp_path / "gone.txt").unlink()
    if is_shortened:
        forget_trainings(tmp_path / "log")
        assert (tmp_path / "log").read_text().count("written") == 1
    with Process(tmp_path, "own") as own:
        own.do(READ)
        own.do(WRITE.replace("best", "new"))
        own.do(READ.replace("best", "new"))
    assert names_of(tmp_path, "found") == ["best.txt"]
    assert names_of(tmp_path, "disturbed") == []


@pytest.mark.parametrize("is_shortened", [False, True])
def test_what_one_training_has_made_for_all_is_told_from_what_each_changes(tmp_path, is_shortened):
    """Red before: data that a rehearsal had prepared were a doubt beside each answer.

    Red at 11f271a7: checkpoints of distinct names, each of which the next run alone begins with,
    were none.
    """
    written = {training_of(REHEARSAL): ["data", "best", "table"], "other": ["table", "epoch=3"]}
    for name, files in written.items():
        with Process(tmp_path, name) as process:
            for file in files:
                process.do(WRITE.replace("best", file))
        if is_shortened:
            forget_trainings(tmp_path / "log")
    with Process(tmp_path, "third", is_under_way=False) as third:  # which prepares what all read
        third.do(WRITE.replace("best", "ready"))
    names = ("data", "ready", "best", "epoch=3", "table")
    with Process(tmp_path, "own") as own:
        for file in names:
            own.do(READ.replace("best", file))
        own.do(WRITE)
    assert names_of(tmp_path, "found") == sorted(f"{name}.txt" for name in names)
    files = [str(tmp_path / f"{name}.txt") for name in names]
    assert changing(tmp_path / "log", files, "fourth", 0) == {*files[2:]}


@pytest.mark.parametrize("is_ended", [False, True])
def test_what_took_long_to_make_is_found_until_somebody_edits_it(tmp_path, is_ended):
    """Red before, of the edited one: what a user wrote was "made once, for all"."""
    with Process(tmp_path, "other", is_under_way=False) as other:
        other.do("file = open('best.txt', 'w')")
        time.sleep(1.1)  # behind which a training opens a file again
        other.do("file.write('2'); file.close()")
        if is_ended:
            other.do("shared_files.ends()")
    with Process(tmp_path, "own") as own:
        own.do(READ)
    assert names_of(tmp_path, "found") == ["best.txt"]
    time.sleep(1.1)
    (tmp_path / "best.txt").write_text("3")
    time.sleep(0.05)  # by the clock of the files
    with Process(tmp_path, "third") as third:
        third.do(READ)
    found = files_of(tmp_path / "log", "third/1", "found", 0)
    # Of one that was killed nobody knows how long it wrote.
    assert len(found) == (0 if is_ended else 1)


def test_what_a_training_finds_and_changes_itself_is_not_made_once(tmp_path):
    """Red before: a number that each one reads and counts up was "made once, for all"."""
    for name in ("other", "own"):
        with Process(tmp_path, name, is_under_way=False) as process:
            process.do("seen = open('best.txt').read() if os.path.exists('best.txt') else ''")
            process.do("open('best.txt', 'w').write(f'{seen}1')")
    file = str(tmp_path / "best.txt")
    assert names_of(tmp_path, "found") == ["best.txt"]
    assert changing(tmp_path / "log", [file], "own", 0) == {file}
    assert changing(tmp_path / "log", [file], "third", 0) == set()
    assert changing(tmp_path / "log", [file], "own", time.time_ns()) == set()  # trained once more


@pytest.mark.parametrize("change", [None, WRITE])
def test_what_a_killed_training_has_opened_to_change_and_left_is_data(tmp_path, change):
    """Red at 1303c2bf: edited later, it was a doubt for good."""
    (tmp_path / "best.txt").write_text("1")
    time.sleep(0.05)  # by the clock of the files
    with Process(tmp_path, "killed") as killed:  # says nothing as it ends
        killed.do("open('best.txt', 'r+').read()" if change is None else change)
    forget_trainings(tmp_path / "log")
    time.sleep(0.05)
    (tmp_path / "best.txt").write_text("3")
    with Process(tmp_path, "own") as own:
        own.do(READ)
    assert names_of(tmp_path, "found") == ([] if change is None else ["best.txt"])


@pytest.mark.parametrize("is_worker", [False, True])
def test_what_forks_make_ahead_of_the_steps_is_made_for_all(tmp_path, is_worker):
    """Red at d6b48169: data that a pool of `prepare_data` made were a doubt.

    Data workers are there before the first step, and read what it needs.
    """
    with Process(tmp_path, "other", is_under_way=False) as other:
        fork = "if not os.fork(): open('best.txt', 'w').write('2'); os._exit(0)"
        if is_worker:
            other.do("from torch.utils.data._utils import worker; worker._worker_info = 1")
        other.do(fork)
        other.do("os.wait()")
    with Process(tmp_path, "own") as own:
        own.do(READ)
    file = str(tmp_path / "best.txt")
    assert names_of(tmp_path, "found") == ["best.txt"]
    assert changing(tmp_path / "log", [file], "fourth", 0) == ({file} if is_worker else set())


def test_what_another_process_of_a_training_has_written_is_its_own(tmp_path):
    """Red before: what the first of two workers had written was an earlier training's."""
    with Process(tmp_path, "other") as other:
        other.do(WRITE)
    with Process(tmp_path, "own") as one, Process(tmp_path, "own") as two:
        one.do(WRITE)
        two.do(READ)
    with Process(tmp_path, "own") as later:
        later.do(READ)
    assert names_of(tmp_path, "found") == names_of(tmp_path, "disturbed") == []


def test_what_a_training_has_written_anew_is_its_own(tmp_path):
    assert disturbed_by(tmp_path, ("own", WRITE), ("own", READ), before=[WRITE]) == []
    assert names_of(tmp_path, "found") == []


def test_without_a_job_nothing_is_watched(tmp_path, monkeypatch):
    monkeypatch.delenv(LOG, raising=False)
    done = subprocess.run(
        [sys.executable, "-c", PROCESS.replace("\nfor", f"\n{WRITE}\nfor")],
        cwd=tmp_path,
        input="",
        check=False,
    )
    assert done.returncode == 0
    assert [file.name for file in tmp_path.iterdir()] == ["best.txt"]
