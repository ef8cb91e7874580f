"""The import rules of the package, each proved to be able to fail."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import reid_torchmetrics

ROOT = Path(reid_torchmetrics.__file__).parent
PACKAGE = ROOT.name
FUNCTIONAL = f"{PACKAGE}.functional"

ROOMS = {
    "ranking": ("measures", "draws", "reranking", "verification", "evaluation"),
    "measures": ("draws", "reranking", "verification", "evaluation"),
    "draws": ("reranking", "verification", "evaluation"),
    "reranking": ("measures", "draws", "verification", "evaluation"),
    "verification": ("measures", "draws", "reranking", "evaluation"),
}
"""rooms of retrieval, and those that they must not know"""

# (who, must not import)
RULES = [
    (FUNCTIONAL, "torchmetrics"),
    (FUNCTIONAL, "torch.distributed"),
    (FUNCTIONAL, "matplotlib"),
    (FUNCTIONAL, "lightning"),
    (FUNCTIONAL, f"{PACKAGE}.metrics"),
    (FUNCTIONAL, f"{PACKAGE}.plot"),
    (f"{FUNCTIONAL}.retrieval", f"{FUNCTIONAL}.detection"),
    (f"{FUNCTIONAL}.detection", f"{FUNCTIONAL}.retrieval"),
    *(
        (f"{FUNCTIONAL}.retrieval.{room}", f"{FUNCTIONAL}.retrieval.{other}")
        for room, others in ROOMS.items()
        for other in others
    ),
    (f"{PACKAGE}.plot", f"{PACKAGE}.metrics"),
    (f"{PACKAGE}.metrics", "lightning"),
    (f"{PACKAGE}._checks", FUNCTIONAL),
    (f"{PACKAGE}._checks", f"{PACKAGE}.metrics"),
    (f"{PACKAGE}._checks", f"{PACKAGE}.plot"),
]


def modules() -> dict[str, str]:
    """Source of every module of the package by its dotted name."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return found


def imports(source: str) -> Iterator[str]:
    """Dotted names that a source imports, `torch.distributed` also where it is only used."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"


def inside(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def violations(sources: dict[str, str], who: str, banned: str) -> list[str]:
    return [
        f"{module} imports {name}"
        for module, source in sources.items()
        if inside(module, who)
        for name in imports(source)
        if inside(name, banned)
    ]


def dependencies(sources: dict[str, str]) -> dict[str, set[str]]:
    """Modules of the package that each module imports, but for the package files that only pass names on."""
    graph = {}
    for module, source in sources.items():
        named = {name if name in sources else name.rpartition(".")[0] for name in imports(source)}
        graph[module] = (named & sources.keys()) - {module, PACKAGE}
    return graph


@pytest.mark.parametrize(("who", "banned"), RULES)
def test_an_import_rule_holds(who, banned):
    assert violations(modules(), who, banned) == []


@pytest.mark.parametrize(("who", "banned"), RULES)
def test_an_import_rule_can_fail(who, banned):
    sources = modules()
    sources[who] = f"import {banned}.thing\n{sources.get(who, '')}"
    assert violations(sources, who, banned)


def test_no_module_imports_itself_by_way_of_others():
    assert list(TopologicalSorter(dependencies(modules())).static_order())


def test_a_cycle_would_be_found():
    sources = modules()
    ranking = f"{FUNCTIONAL}.retrieval.ranking"
    sources[f"{ranking}.rows"] += f"\nfrom {ranking}.ranks import count_ranks"
    with pytest.raises(CycleError):
        list(TopologicalSorter(dependencies(sources)).static_order())


def loaded_by(statement: str) -> set[str]:
    script = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_importing_the_package_loads_neither_matplotlib_nor_lightning():
    # TorchMetrics itself loads matplotlib where it is installed, so that is taken off.
    added = loaded_by("import reid_torchmetrics") - loaded_by("import torchmetrics")
    assert not added & {"matplotlib", "lightning", "pytorch_lightning"}
    assert "json" in loaded_by("import json")


def test_no_file_is_longer_than_300_lines():
    assert {name: source.count("\n") for name, source in modules().items() if source.count("\n") > 300} == {}
