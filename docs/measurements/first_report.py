"""How long a first report takes: from `pip install` in an empty environment to the verdicts.

    python docs/measurements/first_report.py FOLDER

In FOLDER, which must not be there yet: a wheel of this clone, a virtual environment that holds
nothing, a repository with the twenty lines of the guide's first module and nothing else. Then the
two commands of the guide, as a user types them. Prints the seconds of each as rows of Markdown.
What pip takes depends on the network, on its cache and on the size of torch's build; give it
options by its own variables (PIP_CONSTRAINT, PIP_INDEX_URL).
"""

import argparse
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).absolute().parents[2]


def main() -> None:
    """Print a row for each step."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder.absolute()
    repository, programs = folder / "repository", folder / "environment/bin"
    repository.mkdir(parents=True)
    guide = (ROOT / "docs/audit-your-module.md").read_text()
    module = guide.partition("```python\n")[2].partition("```")[0]
    commands = guide.partition("```sh\n")[2].partition("```")[0].splitlines()
    (repository / "my_model.py").write_text(module)
    for arguments in (
        ["pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT],
        ["venv", programs.parent],
    ):
        subprocess.run([sys.executable, "-m", *arguments], check=True)  # noqa: S603
    (wheel,) = folder.glob("*.whl")
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    rows = {}
    for command in (f"pip install --quiet {shlex.quote(str(wheel))}", *commands):
        started = time.perf_counter()
        program, *arguments = shlex.split(command)
        subprocess.run(  # noqa: S603
            [programs / program, *arguments], cwd=repository, env=environment, check=True
        )
        rows[program, *arguments[:1]] = time.perf_counter() - started
    print("| step | seconds |\n| --- | --- |")
    for words, seconds in rows.items():
        print(f"| `{' '.join(words)}` | {seconds:.0f} |")
    print(f"| together | {sum(rows.values()):.0f} |")
    print(f"\nThe report: {repository}/results/report.html")


if __name__ == "__main__":
    main()
