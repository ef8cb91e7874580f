"""Asks mypy for the types of all public names, as the users of an installed package do: `python -m tests.public_types`.

Not a part of the test suite: `nox -s package` runs it against the wheel. It exits with 1 where a public function, or a
method of a public class, returns `Any` without saying so, or where an option that is a typo passes.
"""

import inspect
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import reid_torchmetrics

FACES = ["functional.retrieval", "functional.detection", "plot", "report", "data", "coco", "integrations"]
TYPO = 'reid_torchmetrics.ReIDMetrics(protocol="market1502")'


def callables() -> Iterator[tuple[str, Any]]:
    """The functions of the faces, and the methods that their classes define or inherit from the package."""
    for face in ("reid_torchmetrics", *(f"reid_torchmetrics.{each}" for each in FACES)):
        for name in import_module(face).__all__:
            value = getattr(import_module(face), name)
            if inspect.isfunction(value):
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


def main() -> int:
    asked = [*callables()]
    faces = "\n".join(f"import reid_torchmetrics.{each}" for each in FACES)
    lines = [f"reveal_type({name})" for name, _ in asked]
    with tempfile.TemporaryDirectory() as folder:  # outside of the tree
        Path(folder, "uses.py").write_text("\n".join([faces, *lines, TYPO, ""]), encoding="utf-8")
        place = Path(reid_torchmetrics.__file__).parents[1]
        run = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", "--config-file=", "uses.py"]
        env = os.environ | {"MYPYPATH": str(place)}
        said = subprocess.run(run, check=False, cwd=folder, env=env, capture_output=True, encoding="utf-8").stdout
    by_line = {int(line): text for line, text in re.findall(r"^uses\.py:(\d+): (.*)$", said, re.MULTILINE)}
    answers = [by_line.get(line + 1, "-> Any") for line in range(len(FACES), len(FACES) + len(asked) + 1)]
    found = [name for (name, method), answer in zip(asked, answers, strict=False) if lost(answer, method)]
    found += [f"{TYPO} passes"] * ("arg-type" not in answers[-1])
    sys.stdout.write("\n".join([f"{len(found)} of {len(asked)} types are lost", *found]) + "\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
