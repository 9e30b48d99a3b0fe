"""How long a first report takes: from `pip install` in an empty environment to the verdicts.

    python docs/measurements/first_report.py FOLDER

In FOLDER, which must not be there yet: a wheel of this clone, a virtual environment that holds
nothing, a repository with the twenty lines of the guide's first module and nothing else. Then the
two commands of the guide, as a user types them. Prints the seconds of each as rows of Markdown.
What pip takes depends on the network, on its cache and on the size of torch's build; give it
options by its own variables (PIP_CONSTRAINT, PIP_INDEX_URL).
"""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).absolute().parents[2]


def main() -> None:
    """Print a row for each step."""
    folder = Path(sys.argv[1]).absolute()
    repository, environment = folder / "repository", folder / "environment"
    repository.mkdir(parents=True)
    guide = (ROOT / "docs/audit-your-module.md").read_text()
    module = guide.partition("```python\n")[2].partition("```")[0]
    commands = guide.partition("```sh\n")[2].partition("```")[0].splitlines()
    (repository / "my_model.py").write_text(module)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder]
    subprocess.run([*pip, ROOT], check=True)  # noqa: S603
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)  # noqa: S603
    print("| step | seconds |\n| --- | --- |", flush=True)
    bin_ = environment / "bin"
    pip_install = [bin_ / "python", "-m", "pip", "install", "--quiet", wheel]
    total = _timed("`pip install twinrun`, with all that it needs", pip_install, repository)
    variables = {"PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}"}
    for command in commands:
        arguments = [bin_ / command.split()[0], *command.split()[1:]]
        total += _timed(f"`{command}`", arguments, repository, variables)
    print(f"| together | {total:.0f} |")
    lines = len([line for line in module.splitlines() if line.strip()])
    print(f"\nThe module has {lines} lines. The report: {repository}/results/report.html")


def _timed(
    name: str, command: list[object], folder: Path, variables: dict[str, str] | None = None
) -> float:
    """Run a command, print its row, and return its seconds."""
    started = time.perf_counter()
    environment = {**os.environ, **(variables or {})}
    arguments = [str(each) for each in command]
    subprocess.run(arguments, cwd=folder, env=environment, check=True)  # noqa: S603
    seconds = time.perf_counter() - started
    print(f"| {name} | {seconds:.0f} |", flush=True)
    return seconds


if __name__ == "__main__":
    main()
