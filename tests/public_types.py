"""Asks mypy for the types of all public names, as the users of an installed package do: `python -m tests.public_types`.

Not a part of the test suite: `nox -s package` runs it against the wheel. It exits with 1 where a public function, or a
method of a public class, returns `Any` without saying so, where a misspelt option passes, or where an option takes any
word though one of its name takes some words only.
"""

import inspect
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import reid_torchmetrics
from reid_torchmetrics import _names

FACES = ["functional.retrieval", "functional.detection", "tasks", "plot", "report", "data", "coco", "integrations"]
SOME_WORDS = re.compile(rf"\b(Literal|{'|'.join(name for name in vars(_names) if name[0].isupper())})\b")
ANY_WORD = re.compile(r"(<class 'str'>|str|(typing\.)?Any)( \||$)")
MADE_HERE = ("Duplicates", "IndexRecall", "Measure.average")
"""results, which users do not make, as their similarity may be the name of a function; and a field with any function"""
OPEN = {"label", "metric"}  # a label of LaTeX is any word; the numbers of pairs are few, others have parameters


def callables() -> Iterator[tuple[str, Any]]:
    """The functions and classes of the faces, and the methods that classes define or inherit from the package."""
    for face in ("reid_torchmetrics", *(f"reid_torchmetrics.{each}" for each in FACES)):
        for name in import_module(face).__all__:
            value = getattr(import_module(face), name)
            if inspect.isfunction(value) or inspect.isclass(value):
                yield f"{face}.{name}", value
            for member in dir(value) if inspect.isclass(value) else ():
                method = inspect.getattr_static(value, member)
                method = getattr(method, "__func__", getattr(method, "fget", method))
                if member[0] != "_" and getattr(method, "__module__", "").startswith("reid_torchmetrics"):
                    yield f"{face}.{name}.{member}", method


def lost(line: str, method: Any) -> bool:
    """Whether a line of mypy's says that a result is `Any` where the code says something else."""
    says_so = "Any" in str(getattr(method, "__annotations__", {}).get("return", "Any"))
    return not says_so and bool(re.search(r"(-> Any|is \"Any)\"?$", line))


def options(asked: list[tuple[str, Any]]) -> tuple[list[str], list[str]]:
    """Calls with a misspelt option, and options that take any word though one of their name takes some only."""
    asked = [(name, each) for name, each in asked if not name.endswith(MADE_HERE)]
    found = [(name, *parts) for name, each in asked for parts in parameters(each)]
    some = {option for _, option, kind in found if SOME_WORDS.search(kind)} - OPEN
    any_word = [f"{name}({option}: {kind})" for name, option, kind in found if option in some and ANY_WORD.match(kind)]
    return [f'{name}({option}="misspelt")' for name, option, kind in found if SOME_WORDS.search(kind)], any_word


def parameters(each: Any) -> list[tuple[str, str]]:
    """The parameters with their types in words; none of what has no signature, such as an exception."""
    with suppress(TypeError, ValueError):
        return [(name, str(parameter.annotation)) for name, parameter in inspect.signature(each).parameters.items()]
    return []


def answers(lines: list[str]) -> list[str]:
    """What mypy says of each line, outside of the tree."""
    imports = "".join(f"import reid_torchmetrics.{each}\n" for each in FACES)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "uses.py").write_text(imports + "\n".join([*lines, ""]), encoding="utf-8")
        run = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", "--config-file=", "uses.py"]
        env = os.environ | {"MYPYPATH": str(Path(reid_torchmetrics.__file__).parents[1])}
        said = subprocess.run(run, check=False, cwd=folder, env=env, capture_output=True, encoding="utf-8").stdout
    by_line = dict[int, str]()
    for line, text in re.findall(r"^uses\.py:(\d+): (.*)$", said, re.MULTILINE):
        by_line[int(line)] = f"{by_line.get(int(line), '')} {text}"
    return [by_line.get(len(FACES) + number, "-> Any") for number in range(1, len(lines) + 1)]


def main() -> int:
    asked = [*callables()]
    calls, found = options(asked)
    said = answers([*(f"reveal_type({name})" for name, _ in asked), *calls])
    found += [name for (name, method), answer in zip(asked, said, strict=False) if lost(answer, method)]
    found += [
        f"{call} passes" for call, answer in zip(calls, said[len(asked) :], strict=True) if "arg-type" not in answer
    ]
    counts = f"{len(found)} of {len(asked)} types and {len(calls)} options are lost"
    sys.stdout.write("\n".join([counts, *found]) + "\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
