"""The worked examples in CONTRIBUTING.md, as changes of files.

A block of the language `diff` changes files. `+++ path` names one; then come lines that are there (they begin with a
space), lines that go (`-`) and lines that come (`+`). `@@` is between two places of a file. Lines that come without any
other line are a new file, or stand at the end of one.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
_BLOCK = re.compile(r"^```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Change(NamedTuple):
    """A change of one place of a file."""

    path: str
    """from the root of the repository"""
    before: str
    """lines that are in the file once; none for lines at its end"""
    after: str


def sections() -> dict[str, str]:
    """Return the text of each section of CONTRIBUTING.md, by its title."""
    _, *parts = CONTRIBUTING.read_text(encoding="utf-8").split("\n## ")
    texts: dict[str, str] = {}
    for part in parts:
        title, _, text = part.partition("\n")
        texts[title] = text
    return texts


def recipes() -> dict[str, list[Change]]:
    """Return the changes of each section that begins with "Add a", by its title."""
    return {title: list(changes_in(text)) for title, text in sections().items() if title.startswith("Add a")}


def changes_in(text: str) -> Iterator[Change]:
    """Iterate over the changes in all blocks of a section, in their order."""
    for block in _BLOCK.findall(text):
        _, *files = re.split(r"^\+\+\+ ", block, flags=re.MULTILINE)
        for file in files:
            path, _, lines = file.partition("\n")
            for place in re.split(r"^@@\n", lines, flags=re.MULTILINE):
                yield change_of(path, place)


def change_of(path: str, lines: str) -> Change:
    """Return the change of a file by lines of a diff."""
    before = ""
    after = ""
    for line in lines.splitlines(keepends=True):
        sign, text = line[0], line[1:]
        if line == "\n":
            sign, text = " ", line
        if sign not in " +-":
            raise ValueError(f"a line of a diff must begin with a space, + or -; got {line!r} for {path}.")
        if sign != "+":
            before += text
        if sign != "-":
            after += text
    return Change(path, before, after)


def apply(change: Change, root: Path) -> None:
    """Change a file below a folder.

    Raises:
        ValueError: the lines that must be there are not, or are there more than once.
    """
    path = root / change.path
    if not change.before:
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        path.write_text(old + change.after, encoding="utf-8")
        return
    text = path.read_text(encoding="utf-8")
    # From the beginning of a line, or a line that ends as another one would be found twice.
    places = text.count("\n" + change.before)
    if places != 1:
        raise ValueError(f"{change.path} must have these lines once; it has them {places} times:\n{change.before}")
    path.write_text(text.replace("\n" + change.before, "\n" + change.after), encoding="utf-8")
