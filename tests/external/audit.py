"""Audit code that no one here wrote, and print the rows of docs/external.md.

    python tests/external/audit.py rl4co nequip --environments /somewhere/large

Each folder beside this file is an audit as a user of the package would write it: `requirements.txt`
with the pins, `config.yaml`, and glue in Python only where the package has no class that the config
could name. An environment is made once and kept; this clone is installed into it anew.
"""

import argparse
import csv
import os
import shutil
import subprocess
import tempfile
import time
import venv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# Within an environment that is ignored and removed with it, as they are large.
ENVIRONMENTS = ROOT / ".venv/external"
AUDITS = sorted(file.parent.name for file in HERE.glob("*/config.yaml"))


def environment(audit: str, environments: Path) -> Path:
    """Return the folder of the programs of an environment with the package and this clone."""
    folder = environments / audit
    if not (folder / "bin/python").exists():
        venv.create(folder, with_pip=True)
    pip = [folder / "bin/python", "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--requirement", HERE / audit / "requirements.txt", ROOT], check=True)
    return folder / "bin"


def run(audit: str, programs: Path, folder: Path, *options: str) -> list[dict[str, str]]:
    """Copy the audit to a folder, run it there, and return the rows of its verdicts."""
    shutil.copytree(HERE / audit, folder, dirs_exist_ok=True)
    environ = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    environ["PATH"] = os.pathsep.join([str(programs), environ["PATH"]])
    command = [programs / "twinrun", "run", "--configfile", "config.yaml", *options]
    subprocess.run(command, cwd=folder, env=environ, check=True)
    with (folder / "results/verdicts.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def row(audit: str, verdicts: Sequence[dict[str, str]], seconds: float) -> str:
    """Return the audit's row of the table in docs/external.md."""
    pin = (HERE / audit / "requirements.txt").read_text().split()[-1].replace("==", " ")
    sources = [file.read_text() for file in (HERE / audit).glob("*.py")]
    glue = sum(1 for text in sources for line in text.splitlines() if line.strip())
    studies = ", ".join(dict.fromkeys(verdict["study"] for verdict in verdicts))
    answers = Counter(verdict["answer"] for verdict in verdicts)
    told = ", ".join(f"{count} {answer}" for answer, count in answers.items())
    return f"| {pin} | {glue} | {studies} | {told} | {seconds:.0f} |"


def main() -> None:
    """Audit the packages that are named, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("audits", nargs="*", help=f"of {', '.join(AUDITS)}; all unless given")
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS)
    parser.add_argument("--results", type=Path, help="keep each audit's folder in this one")
    parser.add_argument("--cores", default="all")
    arguments = parser.parse_args()
    results = arguments.results or Path(tempfile.mkdtemp(prefix="external-"))
    for audit in arguments.audits or AUDITS:
        programs = environment(audit, arguments.environments.resolve())
        begin = time.monotonic()
        verdicts = run(audit, programs, results.resolve() / audit, "--cores", arguments.cores)
        print(row(audit, verdicts, time.monotonic() - begin), flush=True)


if __name__ == "__main__":
    main()
