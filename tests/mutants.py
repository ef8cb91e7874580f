"""Changes the code of a room in one place at a time, and runs its tests: `python -m tests.mutants ROOM [number]`.

The room "all" draws from all rooms, each with its own tests. Not a part of the test suite. A mutant is killed if a test
of its room fails, or else a test of any package with few examples, or if the tests do not end in time. Those that its
own tests do not kill are written with what was changed; each that lives wants a test, unless it computes the same. It
exits with 1 where fewer than nine of ten were killed.
"""

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "reid_torchmetrics"
SECONDS, SECONDS_OF_ALL = 300, 1500
ENOUGH = 0.9
_PAIRS = [
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn)),
    *((ast.And, ast.Or), (ast.BitAnd, ast.BitOr), (ast.Add, ast.Sub), (ast.Mult, ast.FloorDiv)),
]
OTHERS = {ast.Div: ast.Mult} | {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
"""what an operator is replaced by"""
SIZES = re.compile("_(AT_A_TIME|AT_ONCE|BLOCK|BYTES|CACHED|COST|SERIAL|SLOTS)(_|$)")
"""constants by which work is cut: nearly all of them change the speed alone"""


class Mutant(NamedTuple):
    """A file of the package with one change."""

    room: str
    path: Path
    line: int
    what: str
    source: str


def has_order(call: ast.Call) -> bool:
    """Whether the first two arguments of a call may mean something else when they are swapped."""
    function, first = ast.unparse(call.func).rpartition(".")[2], [ast.unparse(each) for each in call.args[:2]]
    starred = any(isinstance(each, ast.Starred) for each in call.args)
    return len({*first}) == 2 and not starred and function not in ("min", "max", "minimum", "maximum")


def changes(node: ast.AST) -> Iterator[tuple[Any, str, object]]:
    """What may be changed in a node: where, the name of a field, and its other value."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in OTHERS:
        yield node, "ops", [OTHERS[type(node.ops[0])]()]
    elif isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in OTHERS:
        yield node, "op", OTHERS[type(node.op)]()
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.Invert, ast.USub)):
        yield node, "operand", ast.UnaryOp(node.op, node.operand)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int)):
        yield node, "value", not node.value if isinstance(node.value, bool) else node.value + 1
    elif isinstance(node, ast.IfExp):
        yield node, "test", ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Call) and has_order(node):
        yield node, "args", [node.args[1], node.args[0], *node.args[2:]]


def is_about_speed(tree: ast.AST) -> bool:
    """Whether a statement or a comparison is about one of the `SIZES`."""
    if not isinstance(tree, (ast.Assign, ast.Compare)):
        return False
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return any(SIZES.search(f"_{name}") for name in names if name.isupper())


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that compute: no annotations, options of classes, messages, lengths that `zip` checks, sizes."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list") or isinstance(tree, ast.Raise):
            continue
        if isinstance(tree, ast.ClassDef) and name == "keywords":
            continue
        if isinstance(tree, ast.keyword) and tree.arg == "strict":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not is_about_speed(child):
                yield child
                yield from nodes(child)


def mutants(room: str) -> list[Mutant]:
    """All mutants of the files of a room."""
    found = []
    for path in sorted((ROOT / "src" / PACKAGE / room).glob("[!_]*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node, field, value in [change for each in nodes(tree) for change in changes(each)]:
            before, was = getattr(node, field), ast.unparse(node)
            setattr(node, field, value)
            what = f"{was}  ->  {ast.unparse(node)}"
            found.append(Mutant(room, path.relative_to(ROOT), node.lineno, what, ast.unparse(tree)))
            setattr(node, field, before)
    return found


def rooms() -> list[str]:
    """All folders of the package with code."""
    package = ROOT / "src" / PACKAGE
    folders = {path.parent.relative_to(package).as_posix() for path in package.rglob("[!_]*.py")}
    return sorted(folders - {"."})


def tests_of(room: str) -> list[str]:
    """The files of tests of a room, without those of rooms inside of it."""
    inside = [f"tests/{other}/" for other in rooms() if other.startswith(f"{room}/")]
    paths = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests" / room).rglob("test_*.py"))]
    return [path for path in paths if not path.startswith(tuple(inside))]


def is_killed(mutant: Mutant, tests: Sequence[str], profiles: Sequence[str], seconds: int) -> bool:
    """Whether one of some tests fails, or whether they do not end in time."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "src")
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        Path(folder, mutant.path).write_text(mutant.source, encoding="utf-8")
        options = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", f"--basetemp={Path(folder, 'tests')}"]
        env = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        run = partial(subprocess.run, check=False, cwd=ROOT, capture_output=True, timeout=seconds)
        try:
            for profile in profiles:
                done = run([sys.executable, "-m", "pytest", *options, *tests], env=env | {"TEST_PROFILE": profile})
                if done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                    return True
        except subprocess.TimeoutExpired:
            return True
    return False


def killer(mutant: Mutant, tests: Sequence[str] = ()) -> str:
    """The tests that kill a mutant, "own" or "others", or "" if it lives; `tests` replace those of its room."""
    if is_killed(mutant, tests or tests_of(mutant.room), ("quick", "suite"), SECONDS):  # most within seconds
        return "own"
    # Tests of documents stand beside the folders. They read the source, and would fail for any copy of it.
    others = [str(path) for path in sorted(ROOT.glob("tests/[a-z]*")) if path.is_dir()]
    return "others" if is_killed(mutant, others, ("quick",), SECONDS_OF_ALL) else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("room", help='a folder of the package, such as functional/retrieval/measures, or "all"')
    parser.add_argument("number", nargs="?", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", nargs="+", default=(), help="other tests than those of the room")
    asked = parser.parse_args()
    drawn_from = [mutant for room in (rooms() if asked.room == "all" else [asked.room]) for mutant in mutants(room)]
    drawn = Random(asked.seed).sample(drawn_from, min(asked.number, len(drawn_from)))  # noqa: S311 - no secret
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        killers = [*pool.map(partial(killer, tests=asked.tests), drawn)]
    by_own, alive = killers.count("own"), killers.count("")
    sys.stdout.write(
        f"{asked.room}, seed {asked.seed}: {len(drawn) - alive} of {len(drawn)} killed, {by_own} by the tests of their"
        f" own room, of {len(drawn_from)} that there are\n"
    )
    for mutant, who in zip(drawn, killers, strict=True):
        if who != "own":
            what = "killed by others" if who else "lives"
            sys.stdout.write(f"    {what}: {mutant.path}:{mutant.line}  {mutant.what}\n")
    return int(len(drawn) - alive < ENOUGH * len(drawn))


if __name__ == "__main__":
    sys.exit(main())
