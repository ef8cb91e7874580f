"""The recipes in CONTRIBUTING.md: the changes of their examples, their commands, and what they promise.

A block of the language `diff` changes files. `+++ path` names one; then come lines that are there (they begin with a
space), lines that go (`-`) and lines that come (`+`). `@@` is between two places of a file. Lines that come without any
other line are a new file, or stand at the end of one. A block of Python prints the comment lines at its end.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"
_BLOCK_OF_CHANGES = re.compile(r"^```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCK_OF_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"`python -m ([\w.]+)`")


class Change(NamedTuple):
    """A change of one place of a file."""

    path: str
    """from the root of the repository"""
    before: str
    """lines that are in the file once; none for lines at its end"""
    after: str

    def apply(self, root: Path) -> None:
        """Change the file below a folder.

        Raises:
            ValueError: the lines that must be there are not, or are there more than once.
        """
        path = root / self.path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if not self.before:
            path.write_text(text + self.after, encoding="utf-8")
            return
        # From the beginning of a line on, or the end of a longer line would be found, too.
        places = [place.start() for place in re.finditer(f"^{re.escape(self.before)}", text, re.MULTILINE)]
        if len(places) != 1:
            raise ValueError(f"{self.path} must have these lines once; it has them {len(places)} times:\n{self.before}")
        (begin,) = places
        path.write_text(text[:begin] + self.after + text[begin + len(self.before) :], encoding="utf-8")


class Recipe(NamedTuple):
    """A section of CONTRIBUTING.md about how a part is added."""

    changes: list[Change]
    commands: list[str]
    """modules that are run after the changes"""
    promise: str
    """a block of Python that runs then"""


def recipes_in(text: str) -> dict[str, Recipe]:
    """Return the recipes of a text by their titles, which begin with "Add a"."""
    recipes: dict[str, Recipe] = {}
    _, *sections = text.split("\n## ")
    for section in sections:
        title, _, body = section.partition("\n")
        if title.startswith("Add a"):
            (promise,) = _BLOCK_OF_PYTHON.findall(body)
            recipes[title] = Recipe(list(changes_in(body)), _COMMAND.findall(body), promise)
    return recipes


def changes_in(text: str) -> Iterator[Change]:
    """Iterate over the changes in all blocks of a text, in their order."""
    for block in _BLOCK_OF_CHANGES.findall(text):
        _, *files = re.split(r"^\+\+\+ ", block, flags=re.MULTILINE)
        for file in files:
            path, _, lines = file.partition("\n")
            for place in re.split(r"^@@\n", lines, flags=re.MULTILINE):
                yield change_of(path, place)


def change_of(path: str, lines: str) -> Change:
    """Return the change of a file by lines of a diff.

    Raises:
        ValueError: a line that neither stays nor goes nor comes.
    """
    before = ""
    after = ""
    for line in lines.splitlines(keepends=True):
        # Editors remove the space of a line that is empty otherwise.
        sign, text = (" ", "\n") if line == "\n" else (line[0], line[1:])
        if sign not in " +-":
            raise ValueError(f"a line about {path} must begin with a space, + or -; got {line!r}.")
        if sign != "+":
            before += text
        if sign != "-":
            after += text
    return Change(path, before, after)


RECIPES = recipes_in(CONTRIBUTING.read_text(encoding="utf-8"))
