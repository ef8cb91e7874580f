"""The code blocks of the README and of the documentation pass mypy, as users' files do."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.test_docs_pages import BLOCKS, ROOT, blocks, name_of

README = "\n".join(
    re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
)
TYPED_USES = (ROOT / "tests" / "typed_uses.py").read_text(encoding="utf-8")
ALLOWED = (
    r'incompatible type "\*\*dict\[',  # a dict of arguments, which may have any of the types
    r"Need type annotation for",  # an empty list, in which pages do not write the types
    r'"None" of|\| None"; expected',  # an optional value that the page knows to be there
    r'"compute_metrics" to "Trainer"',  # transformers annotates it without the argument that `batch_eval_metrics` adds
    r"floating|numpy\.bool",  # annotations of NumPy, which do not know that `np.float32` takes lists
)
"""errors of mypy that say nothing about the types of the package"""


def errors_of_mypy(folder: Path) -> list[str]:
    """What mypy finds in the files of a folder."""
    command = [sys.executable, "-m", "mypy", "--config-file=", "--ignore-missing-imports", "--allow-redefinition"]
    command += ["--cache-dir", str(folder / "cache"), str(folder)]
    found = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
    return [line for line in found.stdout.splitlines() if ": error:" in line and not re.search("|".join(ALLOWED), line)]


def test_the_lines_of_the_readme_are_among_the_uses_that_mypy_checks():
    body = textwrap.dedent(TYPED_USES.partition("def readme() -> None:\n")[2].partition("\n\n\n")[0])
    lines = [line.partition("  # noqa")[0] for line in body.splitlines() if line]
    assert lines, "`readme` must have the blocks of the README that need no other package"
    for line in lines:
        assert line in README.splitlines(), line
    assert {line for line in README.splitlines() if "compute()" in line or ".update(e" in line} <= set(lines)


@pytest.mark.nightly
def test_all_blocks_pass_mypy(tmp_path):
    for number, block in enumerate(blocks(ROOT / "README.md")):
        (tmp_path / f"readme_{number}.py").write_text(block, encoding="utf-8")
    for parameters in BLOCKS:
        path, number = parameters.values
        name = re.sub(r"\W", "_", f"{name_of(path)}_{number}")
        (tmp_path / f"{name}.py").write_text(blocks(path)[number], encoding="utf-8")
    assert errors_of_mypy(tmp_path) == []
