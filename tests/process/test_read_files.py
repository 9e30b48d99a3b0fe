"""What the code of a job reads is remembered beside its result, and is a part of the plan."""

import json
import os
import sqlite3
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from twinrun import artifacts
from twinrun.errors import TwinrunError
from twinrun.process import import_log, made_files, read_files, read_notes
from twinrun.process.cached_sources import files_known, newer_than_caches, with_sources
from twinrun.process.import_log import kept, read_by
from twinrun.process.launching import launch
from twinrun.process.read_files import changed, is_changed_meanwhile, other_file
from twinrun.process.read_notes import GONE
from twinrun.process.side_by_side import side_by_side

RESULT = "results/run.json"
HELD = "from twinrun.process.cached_sources import held_by_this_job as held"
JOB = """
import csv, json, multiprocessing, os, pathlib, tempfile, time

def train(code):
    exec(code, globals())
"""
READ = "open('data/rows.csv').read()"
FORKED = f"""
def read():
    {READ}
context = multiprocessing.get_context("fork")
process = context.Process(target=read)
process.start()
process.join()
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Do a job as it is planned now; return what its next plan is told."""
    (tmp_path / "job.py").write_text(JOB)
    for name in ("results", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / "data/rows.csv").write_text("1,2\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)

    def do(code, planned="", *, workers=1, who="w"):
        beside = side_by_side(who, alone=False)
        # What fails is kept as a result elsewhere.
        with kept(RESULT, planned) as log, beside, suppress(TwinrunError):
            launch("job:train", {"code": code}, log, workers=workers)
        return state_of()

    return do


def state_of():
    read_files._now_once.cache_clear()  # of each start of the workflow
    return import_log.state_of(RESULT, ["."])


@pytest.mark.parametrize(
    ("code", "workers"),
    [
        (READ, 1),
        (FORKED, 1),
        (f"{READ} if os.environ['RANK'] == '1' else None", 2),
        (f"{READ}; raise ValueError('no rows')", 1),
        ("os.chdir('data'); pathlib.Path('rows.csv').read_bytes()", 1),
    ],
)
def test_what_a_job_reads_counts_until_it_is_done_again(job, code, workers):
    """Red before: an edited table changed no plan, and the gate passed on the runs of before."""
    assert job(code, workers=workers) == ""
    assert [*read_by(RESULT)] == ["data/rows.csv"]
    rows = Path("data/rows.csv")
    rows.write_text("1,2\n")  # the same once more
    assert state_of() == ""
    rows.write_text("1,3\n")
    found = state_of()
    assert found
    assert job(code, found, workers=workers) == found
    rows.unlink()
    assert state_of() not in ("", found)
    assert changed(read_by(RESULT)) == {"data/rows.csv": GONE}


OPENED = (
    "sqlite3.connect('data/rows.db').execute('pragma user_version')",
    "open('data/rows.db', 'r+b').read()",
)


@pytest.mark.parametrize("opened", OPENED)
def test_what_is_opened_to_be_written_and_stays_as_it_is_counts(job, opened):
    """Red before: of two trainings the second one found what it took for the first one's."""
    sqlite3.connect("data/rows.db").execute("create table rows (number int)")
    time.sleep(0.05)  # by the clock of the files
    for who in ("first", "second"):
        assert job(f"import sqlite3; {opened}", who=who) == ""
        assert [*read_by(RESULT)] == ["data/rows.db"]


@pytest.mark.parametrize(
    "code",
    [
        "open('made.csv', 'w').write('1'); open('made.csv').read()",
        f"{READ}; open('data/rows.csv', 'a').write('3,4')",
        # Written by what Python does not hear of. Red at first: two runs were no pair.
        "os.system('echo 1 > made.csv'); open('made.csv').read()",
        "os.listdir('data')",  # of which nothing is read
        "open('results/runs/old.csv').read()",
        "json.load(open('.hidden/x.json'))",
        "open('data/fast.dll', 'rb').read()",  # Red at 9ab27237
        "tempfile.TemporaryFile().read(); open('/etc/hostname').read(); open(csv.__file__).read()",
        "f = tempfile.NamedTemporaryFile('w', dir='..'); open(f.name).read(); f.close()",
    ],
)
def test_what_it_writes_and_what_is_no_data_counts_not(job, code):
    for name in ("results/runs/old.csv", ".hidden/x.json", "data/fast.dll"):
        Path(name).parent.mkdir(exist_ok=True, parents=True)
        Path(name).write_text("1")
    assert job(code) == ""
    assert read_by(RESULT) == {}


LIBRARY = "import ctypes, mmap; c = ctypes.CDLL(None); d = c.open(b'data/rows.csv', 0)"
AT_STEPS = "from twinrun.process.shared_files import look_at_data; look_at_data()"
MAPPED = """
c.mmap.restype = c.mmap.argtypes = None
c.mmap.restype = ctypes.c_void_p
c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
c.mmap(None, 4, mmap.PROT_READ, mmap.MAP_SHARED, d, 0)
c.close(d)
"""
IN_WORKER = f"""
def read():
    exec({LIBRARY!r}, globals())
process = multiprocessing.get_context("fork").Process(target=read)
process.start()
process.join()
"""


NAMED = """
from twinrun.process.shared_files import found, names
names([os.path.abspath("data/rows.csv")])
"""


FOUND_IF_THERE = f"""
{HELD}
if not os.path.exists('cache.csv'):
    open('cache.csv', 'w').write('of ' + open('data/rows.csv').read())
open('cache.csv').read()
json.dump(held(), open('results/held.json', 'w'))
"""


def test_what_a_cache_was_made_of_counts_once_and_is_named(job):
    """Red before: who found a cache that nobody makes anew was made again at each start."""
    time.sleep(0.05)  # by the clock of the files
    job(FOUND_IF_THERE, who="maker")
    assert job(FOUND_IF_THERE, state_of()) == ""
    Path("data/rows.csv").write_text("1,3\n")
    planned = state_of()
    assert planned
    for _ in range(2):
        assert job(FOUND_IF_THERE, planned) == planned
        read = json.loads(Path("results/held.json").read_text())
        (doubt,) = newer_than_caches(read)
        assert doubt.startswith(
            "the file cache.csv was made of another data/rows.csv than there is"
        )
        assert "data/rows.csv" not in files_known(read)
    Path("data/rows.csv").unlink()  # what a cache was made of may go
    planned = state_of()
    assert planned
    assert job(FOUND_IF_THERE, planned) == planned
    assert newer_than_caches(json.loads(Path("results/held.json").read_text())) == []


@pytest.mark.parametrize("named", ["", f"{NAMED}found()"])
def test_a_table_that_is_named_is_not_taken_for_read(job, named):
    """Red before: who named it, and found the cache, seemed to rest on the table of now."""
    time.sleep(0.05)  # by the clock of the files
    job(FOUND_IF_THERE, who="maker")
    Path("data/rows.csv").write_text("1,3\n")
    time.sleep(0.05)
    for _ in range(2):
        job(f"{named}\n{FOUND_IF_THERE}", planned := state_of())
        assert newer_than_caches(json.loads(Path("results/held.json").read_text()))
        assert state_of() == planned
    # Who reads it, too, has the table of now, whatever the cache was made for.
    job(f"{READ}\n{named}\n{FOUND_IF_THERE}", planned)
    assert newer_than_caches(json.loads(Path("results/held.json").read_text())) == []


@pytest.mark.parametrize("change", ["touch", "move"])
def test_what_a_touched_cache_was_made_of_is_known(job, tmp_path, monkeypatch, change):
    """Red before: by the time of the cache, and by its whole path, nobody knew it again."""
    time.sleep(0.05)  # by the clock of the files
    job(FOUND_IF_THERE, who="maker")
    if change == "touch":
        time.sleep(0.05)
        Path("cache.csv").touch()
    else:
        (tmp_path / "moved").mkdir()
        for each in (".snakemake", "data", "results", "cache.csv"):
            Path(each).rename(tmp_path / "moved" / each)
        monkeypatch.chdir(tmp_path / "moved")
    job("open('cache.csv').read()")
    assert {*read_by(RESULT)} == {"cache.csv", "data/rows.csv"}


def test_of_many_caches_what_they_were_made_of_is_read_once(tmp_path, monkeypatch):
    """Red before: once for each, of which each may name thousands of files."""
    monkeypatch.chdir(tmp_path)
    caches = [f"{number}.pt" for number in range(20)]
    for name in ("rows.csv", *caches):
        Path(name).write_text(name)
    sources = {"rows.csv": artifacts.sha256("rows.csv")}
    made_files.remember(dict.fromkeys(caches, "f01"), sources)
    reads, read = [], artifacts.read_record
    monkeypatch.setattr(artifacts, "read_record", lambda *of: reads.append(of[0]) or read(*of))
    assert "rows.csv" in with_sources(dict.fromkeys(caches, "f00"))
    assert len(reads) == len(caches) + 1


def test_who_makes_it_anew_says_nothing_of_it(job):
    time.sleep(0.05)  # by the clock of the files
    job(FOUND_IF_THERE, who="maker")
    Path("data/rows.csv").write_text("1,3\n")
    Path("cache.csv").unlink()
    job(FOUND_IF_THERE, who="maker")
    assert job(FOUND_IF_THERE, state_of()) == state_of()
    assert newer_than_caches(read_by(RESULT)) == []


def test_a_file_that_is_missing_counts_as_soon_as_it_is_there(job):
    """Red before: what had failed for want of a picture stayed failed when that was supplied."""
    assert job("open('data/extra.csv')") == ""
    assert read_by(RESULT) == {"data/extra.csv": GONE}
    Path("data/extra.csv").write_text("1,3\n")
    planned = state_of()
    assert planned
    time.sleep(0.05)  # by the clock of the files
    assert job("open('data/extra.csv').read()", planned) == planned
    assert read_by(RESULT) not in ({}, {"data/extra.csv": GONE})


TRIES = """
try:
    open('data/cache.csv').read()
except FileNotFoundError:
    open('data/cache.csv', 'w').write('1')
    open('data/cache.csv').read()
"""


def test_one_that_is_missing_and_made_is_no_change(job):
    for who in ("first", "second", "second"):
        assert job(TRIES, state_of(), who=who) == ""
        assert GONE not in read_by(RESULT).values()


MISSING = """
from twinrun.process.shared_files import under_way
try:
    open('best.json')
except FileNotFoundError:
    pass
under_way()
open('best.json', 'w').write('1')
"""


def test_one_that_is_missing_and_written_by_steps_costs_no_checkpoint(job):
    """Red before: of who was killed behind that the next plan was told that it had changed."""
    with kept(RESULT, "") as log, side_by_side("w", alone=False):
        launch("job:train", {"code": MISSING}, log)
        notes = read_notes.notes_of(import_log.log_of(RESULT))
        noted = notes.read_bytes()
    notes.write_bytes(noted)  # as one that was killed has left them
    assert state_of() == ""


PARTS = """
from twinrun.process.shared_files import begins_part
for name in ("rows", "more"):
    begins_part()
    if not os.path.exists(f'{name}.pt'):
        open(f'{name}.pt', 'w').write(open(f'data/{name}.csv').read())
        open(f'{name}.pt').read()
"""


def test_a_cache_is_made_of_what_its_own_workload_has_read(job):
    """Red before: a rehearsal of two workloads took what both read for what each cache is of."""
    Path("data/more.csv").write_text("1\n")
    time.sleep(0.05)  # by the clock of the files
    job(PARTS, who="rehearsal")
    job("open('rows.pt').read()")
    assert {*read_by(RESULT)} == {"rows.pt", "data/rows.csv"}
    Path("rows.pt").unlink()
    job(PARTS.replace('("rows", "more")', '("rows",)'), who="rehearsal")  # of one workload
    assert {*read_by(RESULT)} == {"data/rows.csv"}


NOT_READ = PARTS.replace("        open(f'{name}.pt').read()\n", "")
IN_FORKS = NOT_READ.replace(
    "):\n    begins_part()",
    "):\n    if os.fork():\n        os.wait()\n        continue\n    begins_part()",
)
IN_FORKS += "    os._exit(0)\n"


@pytest.mark.parametrize("code", [NOT_READ, IN_FORKS], ids=["one process", "forks"])
def test_so_is_one_that_it_has_not_read_again(job, code):
    """Red at 959891d6: noted at the end alone, it was taken for made of the last one's data."""
    Path("data/more.csv").write_text("1\n")
    time.sleep(0.05)  # by the clock of the files
    job(code, who="rehearsal")
    for name in ("rows", "more"):
        job(f"open('{name}.pt').read()")
        assert {*read_by(RESULT)} == {f"{name}.pt", f"data/{name}.csv"}


MEMORY = PARTS.replace("begins_part()\n    if", "begins_part()\n    rows = known()\n    if")
MEMORY = MEMORY.replace("open(f'data/{name}.csv').read()", "rows")


def test_a_part_that_has_its_table_from_memory_rests_on_it(job):
    known = "import functools\n@functools.cache\ndef known(): return open('data/rows.csv').read()"
    time.sleep(0.05)  # by the clock of the files
    job(f"{known}\n{MEMORY}", who="rehearsal")
    job("open('more.pt').read()")
    assert {*read_by(RESULT)} == {"more.pt", "data/rows.csv"}


REMADE = "open('cache.csv').read(); time.sleep(0.05); os.system('echo 2 > cache.csv')"


def test_what_somebody_else_makes_anew_meanwhile_is_a_doubt(job):
    """Red before: as a training had made it once, a change by hand was taken for a training's."""
    time.sleep(0.05)  # by the clock of the files
    job(FOUND_IF_THERE, who="maker")
    time.sleep(0.05)
    job(REMADE)
    assert is_changed_meanwhile(read_by(RESULT)["cache.csv"])
    assert state_of()


LATE = f"{NAMED}time.sleep(0.05); os.system('echo 9 > data/rows.csv')"


def test_what_it_names_and_reads_late_is_a_doubt_if_it_has_changed(job):
    """Red before: a test set that was edited under way was read, and left no mark."""
    assert job(f"{LATE}; {READ}; found()")
    assert is_changed_meanwhile(read_by(RESULT)["data/rows.csv"])


def test_what_a_training_names_counts(job):
    """Red before: of what a library opens and closes by itself nobody knew what it held."""
    time.sleep(0.05)  # by the clock of the files
    assert job(f"{NAMED}found()") == ""
    assert [*read_by(RESULT)] == ["data/rows.csv"]
    Path("data/rows.csv").write_text("1,3\n")
    assert state_of()


def test_what_it_names_and_a_library_writes_counts_not(job):
    assert job(f"{NAMED}time.sleep(0.05); os.system('echo 1 >> data/rows.csv'); found()") == ""
    assert read_by(RESULT) == {}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("opened", OPENED)
@pytest.mark.parametrize("who", ["first", "second"])
def test_so_it_does_where_it_was_changed_between_two_jobs(job, opened, who):
    """Red at 9ab27237: the job before was taken for who had changed it."""
    sqlite3.connect("data/rows.db").execute("create table rows (number int)")
    for turn in range(3):
        time.sleep(0.05)  # by the clock of the files
        assert job(f"import sqlite3; {opened}", who=who if turn else "first") == ""
        assert [*read_by(RESULT)] == ["data/rows.db"]
        with sqlite3.connect("data/rows.db") as changed:
            changed.execute("insert into rows values (1)")
        assert state_of()


@pytest.mark.skipif(sys.platform != "linux", reason="nobody else says what a process holds")
@pytest.mark.parametrize(
    "code",
    [f"{LIBRARY}; {AT_STEPS}", f"{LIBRARY}{MAPPED}{AT_STEPS}", IN_WORKER],
    ids=["open", "mapped", "worker"],
)
def test_what_a_library_holds_open_counts(job, code):
    """Red before: HDF5 and Arrow open files of which Python hears nothing."""
    assert job(code) == ""
    assert [*read_by(RESULT)] == ["data/rows.csv"]
    Path("data/rows.csv").write_text("1,3\n")
    assert state_of()


@pytest.mark.parametrize(
    "code",
    [
        LIBRARY.replace("', 0)", "', 2)"),  # to be written too, as a log is
        f"{LIBRARY}; c.close(d)",
        "import ctypes; c = ctypes.CDLL(None); d = c.open(b'made.csv', 64, 420)",
    ],
)
def test_what_a_library_may_write_counts_not(job, code):
    assert job(f"{code}; {AT_STEPS}") == ""
    assert read_by(RESULT) == {}


GLOB = "import glob; [open(file).read() for file in glob.glob('{}')]"
KEEPS = "open('{}', 'w').write(str(os.getpid()))"
STEPS = "from twinrun.process import shared_files; shared_files.under_way()"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("folder", "code"),
    [
        # Red at 9ab27237, each: nobody knew of the new table, or of two jobs one.
        ("", GLOB.format("*.csv")),
        ("", f"{GLOB.format('*.csv')}; {KEEPS.format('scaler.json')}"),
        ("data", f"{GLOB.format('data/*.csv')}; {KEEPS.format('data/scaler.json')}"),
        ("data", f"{GLOB.format('data/rows*.csv')}; os.makedirs('data/m', exist_ok=True)"),
        ("data", f"{GLOB.format('data/r*.csv')}; {KEEPS.format('data/of.csv')}"),
        ("data", f"open('data/rows.csv', 'r+').read(); {GLOB.format('data/r*.csv')}"),
        # Red at 1303c2bf: of a folder whose files a library reads, or with scores of each.
        ("data", f"os.listdir('data'); {READ}; open('data/a.png', 'a').close()"),
        ("data", f"{GLOB.format('data/r*.csv')}; {STEPS}; open('data/s.csv', 'a').write('1')"),
    ],
)
def test_a_file_that_comes_to_lie_beside_those_that_were_read_counts(job, folder, code):
    Path("rows.csv").write_text("1,2\n")
    found = []
    for who in ("first", "second"):
        time.sleep(0.05)  # by the clock of the files
        assert job(code, who=who) == ""
        found.append(read_by(RESULT))
    assert found[0] == found[1] != {}
    for name in ("slurm-1.out", "nohup.txt", "notes"):
        Path(name).write_text("1")
    assert state_of() == ""
    Path(folder, "rows-of-may.csv").write_text("3,4\n")
    assert state_of()


def test_of_the_working_directory_only_what_both_have_read_is_compared(job):
    """Red at 1303c2bf: two that read files with other endings were no pair."""
    found = []
    for kind in ("csv", "txt"):
        Path(f"rows.{kind}").write_text("1,2\n")
        time.sleep(0.05)  # by the clock of the files
        job(
            f"{GLOB.format(f'*.{kind}')}; {HELD}; json.dump(held(), open('results/held.json', 'w'))"
        )
        found.append(json.loads(Path("results/held.json").read_text()))
    assert "." in found[0].keys() & found[1].keys()
    assert other_file(*found) is None


def test_what_another_workflow_has_made_below_results_counts(job):
    """Red at 9ab27237: all of `results` was taken for this package's own."""
    own = ("results/data/own.npz", "results/data/own.imports.jsonl")
    for name in ("results/prep/train.csv", "results/data/rows.npz", *own):
        Path(name).parent.mkdir(exist_ok=True, parents=True)
        Path(name).write_text("1")
    time.sleep(0.05)  # by the clock of the files
    assert job("[open(p).read() for p in pathlib.Path('results').rglob('*.*')]") == ""
    assert {*read_by(RESULT)} >= {"results/prep/train.csv", "results/data/rows.npz"}
    assert "results/data/own.npz" not in read_by(RESULT)


def test_what_changes_while_it_is_read_is_not_known(job):
    """Red at 9ab27237: it was left out, so that another run's was compared with nothing."""
    code = f"{READ}; import subprocess; subprocess.run(['sh', '-c', 'echo 3,4 > data/rows.csv'])"
    planned = job(code)
    assert planned  # made again
    assert is_changed_meanwhile(read_by(RESULT)["data/rows.csv"])
    assert job(READ, planned) == planned
    assert state_of() == planned
    assert read_by(RESULT)["data/rows.csv"] == artifacts.sha256("data/rows.csv")


CACHES = """
made = os.path.getmtime('cache.csv') if os.path.exists('cache.csv') else 0
if made < os.path.getmtime('data/rows.csv'):
    open('cache.csv', 'w').write('of ' + open('data/rows.csv').read())
open('cache.csv').read()
"""
LINES = """
if not os.path.exists('lines.csv'):
    open('lines.csv', 'w').write('1,2')
    open('lines.csv', 'a').write('3,4')
open('lines.csv').read()
"""


# Who keeps in memory what it has made; and what is made of that again.
KEEPING = CACHES.replace("open('cache.csv').read()", "x = 1")
# And a file elsewhere, which is gone when the job has ended.
LEAVING = f"""
{CACHES}
with tempfile.NamedTemporaryFile("w", dir="..", delete=False) as file:
    file.write("1")
open(file.name).read()
import atexit
atexit.register(os.unlink, file.name)
"""
CHAIN = f"""
{CACHES}
if not os.path.exists('again.csv'):
    open('again.csv', 'w').write('of ' + open('cache.csv').read())
"""
FOUND = "open('{}').read()"


@pytest.mark.parametrize(
    ("makes", "finds", "file"),
    [
        ([CACHES], CACHES, "cache.csv"),
        # Red at 1303c2bf, both.
        ([KEEPING], CACHES, "cache.csv"),
        ([LEAVING], CACHES, "cache.csv"),
        ([CACHES, CHAIN], FOUND.format("again.csv"), "again.csv"),
    ],
    ids=["read", "kept", "leaving", "chain"],
)
def test_what_a_file_was_made_of_counts_for_all_that_find_it(job, makes, finds, file):
    """Red at 9ab27237: for its maker alone."""
    time.sleep(0.05)  # by the clock of the files
    for who, code in enumerate([*makes, finds, finds]):
        assert job(code, who=f"{who}") == ""
    assert {*read_by(RESULT)} >= {file, "data/rows.csv"}


def test_what_is_made_anew_of_other_sources_is_known_by_these(job):
    time.sleep(0.05)  # by the clock of the files
    for who in ("rehearsal", "first", "second"):
        assert job(CACHES, who=who) == ""
    assert {*read_by(RESULT)} == {"cache.csv", "data/rows.csv"}
    Path("data/rows.csv").write_text("1,3\n")
    planned = state_of()
    assert planned
    for who in ("first", "second"):
        time.sleep(0.05)  # by the clock of the files
        assert job(CACHES, planned, who=who) == planned
        assert read_by(RESULT)["data/rows.csv"] == artifacts.sha256("data/rows.csv")


@pytest.mark.parametrize("first", ["first", "rehearsal"])
def test_what_is_made_in_two_goes_is_made_for_all(job, first):
    """Red at 9ab27237: it was taken for what each training changes, and never remembered."""
    for who in (first, "second", "third"):
        time.sleep(0.05)  # by the clock of the files
        assert job(LINES, who=who) == ""
    assert {*read_by(RESULT)} == {"lines.csv"}
    Path("lines.csv").write_text("1,3\n")
    assert state_of()


def test_what_two_processes_read_otherwise_is_not_known(job):
    """Red at 9ab27237: it was left out."""
    edited = "subprocess.run(['sh', '-c', 'sleep 0.05; echo 3,4 > data/rows.csv'])"
    code = f"import subprocess\n{READ}\n{edited}\nread_files._known.clear()\n{READ}"
    code = f"from twinrun.process import shared_files\nread_files = shared_files._log.data\n{code}"
    assert job(code)
    assert is_changed_meanwhile(read_by(RESULT)["data/rows.csv"])


def test_what_changes_before_it_is_read_is_compared(job):
    """Red at 9ab27237: of the job that read it so nobody knew what it held."""
    edited = (
        "import subprocess; subprocess.run(['sh', '-c', 'sleep 0.05; echo 3,4 > data/rows.csv'])"
    )
    for code in (READ, f"{edited}; {READ}"):
        time.sleep(0.05)  # by the clock of the files
        job(f"{code}; {HELD}; json.dump(held(), open('results/held.json', 'w'))")
        Path(f"held{len(code)}.json").write_bytes(Path("results/held.json").read_bytes())
    first, second = (json.loads(p.read_text()) for p in sorted(Path().glob("held*.json")))
    assert other_file(first, second) == "data/rows.csv"


MAKES = f"""
if not os.path.exists('made.csv'):
    open('made.csv', 'w').write('1')
open('made.csv').read()
{HELD}
json.dump(held(), open('results/held.json', 'w'))
"""


def test_what_one_has_made_and_another_found_is_compared(job):
    """Red at first: the one that had found it was trained again, and compared with the other."""
    found = []
    for who in ("first", "second", "third"):
        if who == "third":
            Path("made.csv").write_text("2")
            time.sleep(0.05)  # by the clock of the files
        assert job(MAKES, who=who) == ""
        found.append(json.loads(Path("results/held.json").read_text()))
        assert (read_by(RESULT) == {}) is (who == "first")
    first, second, third = found
    assert other_file(first, second) is None
    assert other_file(first, third) == other_file(second, third) == "made.csv"
    assert other_file(first, {"made.csv": "made 0"}) is None  # each has made its own


ANEW = MAKES.replace("if not os.path.exists('made.csv'):", "if True:")


def test_who_has_made_a_file_that_somebody_changes_is_trained_again(job):
    """Red before: who had found it was, and the pair read something else for good."""
    assert job(MAKES, who="first") == ""
    time.sleep(1.1)  # a training may write a file again for a second, and is written down once
    Path("made.csv").touch()
    assert state_of() == ""
    Path("made.csv").write_text("2")
    (found := state_of())
    assert found
    assert import_log.changed_by_others(RESULT) == {"made.csv": artifacts.sha256("made.csv")}
    job(MAKES, found, who="first")
    assert [*read_by(RESULT)] == ["made.csv"]
    assert state_of() == found
    Path("made.csv").unlink()
    assert state_of() != found


@pytest.mark.parametrize("who", ["first", "second"])
def test_who_makes_it_anew_each_time_is_not(job, who):
    job(ANEW, who="first")
    log = import_log.log_of(RESULT)
    kept = log.read_bytes()
    job(ANEW.replace("'1'", "'2'"), who=who)
    log.write_bytes(kept)
    assert state_of() == ""
    Path("made.csv").unlink()
    assert state_of() == ""


EDITED = "time.sleep(0.05); os.system('echo 3,4 > data/rows.csv')"


def test_what_changes_in_the_steps_before_it_is_read_is_compared(job):
    """Red before: a test set, edited under way, had no mark, and what it gave was another's."""
    found = []
    for edited in ("pass", f"under_way(); {EDITED}"):
        time.sleep(0.05)  # by the clock of the files
        code = f"from twinrun.process.shared_files import under_way; {edited}; {READ}"
        job(f"{code}; {HELD}; json.dump(held(), open('results/held.json', 'w'))")
        found.append(json.loads(Path("results/held.json").read_text()))
    assert other_file(*found) == "data/rows.csv"
    assert read_by(RESULT) == {}  # nobody knows who has written it: it may be each of them


def test_what_a_library_writes_again_and_again_is_no_change(job):
    """Data workers read it once an epoch, each in a process of its own."""
    turn = "os.system('echo {} > made.csv'); open('made.csv').read(); log.data._known.clear()"
    code = "from twinrun.process import shared_files; log = shared_files._log"
    code = f"{code}; {turn.format(1)}; {turn.format(2)}; time.sleep(0.05); {turn.format(3)}"
    assert job(code) == ""
    assert read_by(RESULT) == {}


SELECTS = """
import sqlite3
from twinrun.process.shared_files import ends, under_way
data_base = sqlite3.connect('data/rows.db')
data_base.execute('select * from rows').fetchall()
data_base.close()
under_way()
time.sleep(0.05)
os.system('cp other.db data/rows.db')
ends()
"""


def test_a_data_base_that_was_read_and_is_edited_in_the_steps_is_a_doubt(job):
    """Red before: it was taken for written by the training that had opened it, for good."""
    for file in ("data/rows.db", "other.db"):
        data_base = sqlite3.connect(file)
        data_base.execute("create table rows (number int)")
        data_base.close()
    time.sleep(0.05)  # by the clock of the files
    assert job(SELECTS)
    assert is_changed_meanwhile(read_by(RESULT)["data/rows.db"])


def test_a_file_that_comes_into_a_folder_of_data_counts(job):
    walk = f"[{READ} for _ in os.walk('data')]"
    assert job(walk) == ""
    Path("data/.cache").touch()
    Path("beside").touch()
    assert state_of() == ""
    Path("data/more.csv").touch()
    assert state_of()


def test_a_folder_that_each_training_adds_to_counts_not(job):
    """Red at 531cde28: each one had those before it trained again."""
    Path("data/runs").mkdir()
    code = f"""
{READ}
turn = len([each for each in os.walk('data')])
os.makedirs(f'data/runs/{{turn}}')
from twinrun.process import shared_files
shared_files.under_way()
open(f'data/runs/{{turn}}/last.txt', 'w').write('1')
"""
    for who in ("first", "second", "third"):
        assert job(code, who=who) == ""
    assert [*read_by(RESULT)] == ["data", "data/rows.csv"]  # of one the names that end in .csv


def test_what_lies_elsewhere_and_is_not_there_another_machine_has(job, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("staged") / "rows.csv"
    elsewhere.write_text("1")
    assert job(f"open({str(elsewhere)!r}).read()") == ""
    elsewhere.write_text("2")
    assert state_of()
    elsewhere.unlink()
    assert state_of() == ""


def test_of_very_large_data_size_and_time_count(job, monkeypatch):
    monkeypatch.setattr(read_files, "MOST_BYTES", 3)
    rows = Path("data/rows.csv")
    assert job(READ) == ""
    rows.write_text("1,3\n")
    assert state_of()
    first = read_by(RESULT)
    assert job(READ, "again") == "again"
    assert other_file(first, read_by(RESULT)) is None  # a copy has another time
    rows.write_text("1,30\n")
    assert job(READ, "again") == "again"
    assert other_file(first, read_by(RESULT)) == "data/rows.csv"


def test_a_job_that_was_killed_has_noted_what_it_read(job):
    assert job(READ) == ""
    log = import_log.log_of(RESULT)
    folder = str(Path.cwd())
    notes = read_notes.ReadFiles(read_notes.notes_of(log), folder)
    Path("data/late.csv").write_text("1")
    notes.note(f"{folder}/data/late.csv", began=time.time_ns())
    assert state_of() == ""
    Path("data/late.csv").write_text("2 and 3")
    assert state_of()


def test_few_processes_that_know_little_fill_no_disk(tmp_path, monkeypatch):
    """As data workers that are forked anew in each epoch."""
    monkeypatch.setattr(read_notes, "_MOST_LOGGED", 300)
    for file in "abcdef":
        (tmp_path / file).touch()
    for _ in range(3):
        notes = read_notes.ReadFiles(tmp_path / "notes", str(tmp_path))
        for file in "abcdef":
            notes.note(f"{tmp_path}/{file}", began=time.time_ns())
    assert (tmp_path / "notes").stat().st_size < 300 + 2 * len(f"{tmp_path}") + 60
