"""Which files a rule depends on."""

import os
import subprocess
import sys
from pathlib import Path

from twinrun.process.source_hash import find_source, package_files, sources_hash


def names(files):
    return {Path(file).name for file in files}


def test_imports_are_followed_inside_the_package():
    assert names(package_files("twinrun.training.load_workload")) == {
        "__init__.py",
        "artifacts.py",
        "errors.py",
        "import_path.py",
        "load_workload.py",
        "unsupported.py",
    }


def test_training_depends_on_tracing_and_not_on_the_report():
    files = names(package_files("twinrun.training.train"))
    assert {"step_tracer.py", "determinism.py", "artifacts.py"} <= files
    assert not files & {"page.py", "pairs.py", "settings.py"}


def test_users_modules_beside_the_config_are_followed(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\nfrom helper import layer\nfrom pack import deep\n"
    )
    (tmp_path / "helper.py").write_text("layer = 1\n")
    (tmp_path / "unused.py").write_text("")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").write_text("raise RuntimeError('nothing is imported')\n")
    (tmp_path / "pack/deep.py").write_text("from . import sibling\n")
    (tmp_path / "pack/sibling.py").write_text("")
    files = package_files("mine", [str(tmp_path)])
    assert names(files) == {"mine.py", "helper.py", "__init__.py", "deep.py", "sibling.py"}


def test_a_broken_or_missing_module_has_no_imports(tmp_path):
    (tmp_path / "broken.py").write_text("def :")
    assert names(package_files("broken", [str(tmp_path)])) == {"broken.py"}
    assert package_files("absent", [str(tmp_path)]) == []


def test_the_hash_sees_names_and_contents_but_not_folders_and_dates(tmp_path):
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text("import helper\n")
        (tmp_path / folder / "helper.py").write_text("layer = 1\n")
    os.utime(tmp_path / "there/helper.py", (0, 0))
    here, there = ([str(tmp_path / folder)] for folder in ("here", "there"))
    expected = sources_hash(["mine"], here)
    assert expected == sources_hash(["mine"], there) == sources_hash(["helper", "mine"], there)
    (tmp_path / "there/helper.py").write_text("layer = 2\n")
    assert sources_hash(["mine"], there) != expected
    (tmp_path / "here/mine.py").rename(tmp_path / "here/yours.py")
    assert sources_hash(["yours"], here) != expected


def test_nothing_is_imported():
    code = (
        "import sys; from twinrun.process.source_hash import package_files;"
        "package_files('twinrun.training.train');"
        "assert not {'torch', 'pytorch_lightning'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_find_source_prefers_the_search_path(tmp_path):
    (tmp_path / "json.py").write_text("")
    assert find_source("json", [str(tmp_path)]) == tmp_path / "json.py"
    assert find_source("json.decoder") is not None
