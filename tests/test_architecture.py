"""The layers of the package in an order, with those that each may import; and rules for files and names."""

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

import reid_torchmetrics

ROOT = Path(reid_torchmetrics.__file__).parent
PACKAGE = ROOT.name
FUNCTIONAL = f"{PACKAGE}.functional"

PRIVATE = [path.stem for path in sorted(ROOT.glob("_*.py")) if not path.stem.startswith("__")]
"""modules of the package that the engine and the tools share"""

SHARED = [
    "functional.displays",
    "functional.model_tables",
    "functional.named_numbers",
    "functional.result_cache",
    "functional.saved_results",
    "functional.segments",
    "functional.workers",
    "functional.world",
]
"""modules that retrieval and detection share"""

RETRIEVAL = {
    "relevance": [],
    "scores": ["relevance"],
    "ranking": ["relevance", "scores"],
    "measures": ["relevance", "ranking"],
    "sharding": ["relevance", "scores", "ranking"],
}
"""rooms of retrieval below `evaluation`, in an order, and the rooms that each may import"""

DETECTION = {
    "inputs": [],
    "batches": ["inputs"],
    "matching": ["inputs"],
    "curves": ["inputs", "matching"],
    "evaluators": ["inputs", "matching", "curves"],
}
"""rooms of detection below `evaluation`, in an order, and the rooms that each may import"""


def rooms_of(half: str, rooms: dict[str, list[str]]) -> dict[str, list[str]]:
    """The rooms of a half of `functional` with the layers that each may import; `evaluation` is above all others."""
    layers = {}
    for room, others in {**rooms, "evaluation": list(rooms)}.items():
        layers[f"{half}.{room}"] = ["private", "shared", *(f"{half}.{other}" for other in others)]
    layers[half] = ["private", *(f"{half}.{room}" for room in (*rooms, "evaluation"))]
    return layers


ENGINE = {
    "private": [],
    "shared": ["private"],
    **rooms_of("functional.retrieval", RETRIEVAL),
    **rooms_of("functional.detection", DETECTION),
    "functional": ["private"],
    "metrics.base": ["private", "shared"],
    "metrics.reid": ["private", "shared", "functional.retrieval", "metrics.base"],
    "metrics.detection": ["private", "shared", "functional.detection", "metrics.base"],
    "metrics": [],
}
"""layers of the engine, in an order, and those that each may import"""

TASK_ROOMS = {
    "tasks.walks": ["private", "shared", "functional.retrieval"],
    "tasks.hashing": ["private", "shared", "functional.retrieval"],
    "tasks.streams": ["private", "shared", "functional.retrieval", "tasks.hashing"],
    "tasks.draws": ["private", "shared", "functional.retrieval", "tasks.walks"],
    "tasks.reranking": ["private", "shared", "functional.retrieval", "tasks.walks"],
    "tasks.comparison": ["private", "shared", "functional"],
    "tasks.operating_points": ["private", "shared", "functional.detection"],
    "tasks.detection_errors": ["private", "shared", "functional.detection", "tasks.operating_points"],
    "tasks.evaluators": ["private", "shared", "functional.detection", "tasks.operating_points"],
    "tasks.lists": ["private", "shared", "functional.retrieval"],
    "tasks.places": ["private", "shared", "functional.retrieval"],
    "tasks.rotated_boxes": ["private", "shared", "functional.detection"],
    "tasks.vector_indexes": [
        "private",
        "shared",
        "functional.retrieval",
        "tasks.walks",
        "tasks.hashing",
        "tasks.comparison",
        "tasks.lists",
    ],
    "tasks.verification": ["private", "shared", "functional.retrieval", "tasks.walks"],
}
"""rooms of tasks, in an order, and the layers that each may import"""

TASKS = {
    **TASK_ROOMS,
    "tasks": ["private", "shared", "functional", *TASK_ROOMS],
    "tasks.metrics": ["private", "shared", "functional", "metrics", "tasks"],
}
"""further evaluations and their metrics, and the layers that each may import; the engine works without them"""

TOOLS = {
    "diagnosis": ["private", "shared", "functional", "tasks"],
    "files": ["private", "shared", "functional"],
    "data": ["private", "functional", "tasks", "files"],
    "coco": ["private", "shared", "functional.detection", "files"],
    "plot": ["private", "functional", "tasks"],
    "report": ["private", "functional", "tasks", "files", "plot"],
    "integrations.pictures": ["private", "files", "plot"],
    "integrations": ["private", "functional", "metrics", "plot", "integrations.pictures"],
    "command": [
        "private",
        "functional",
        "metrics",
        "tasks",
        "diagnosis",
        "files",
        "data",
        "coco",
        "plot",
        "report",
        "integrations",
    ],
}
"""the tools, in an order, and the layers that each may import"""

LAYERS = ENGINE | TASKS | TOOLS | {"": ["private", "functional", "metrics", *TASKS, *TOOLS]}
"""all layers; the last one is the `__init__` and the `__main__` of the package"""

PACKAGES = {
    "private": {"numpy", "torch", "tqdm"},
    "functional": {"jaxtyping", "numpy", "pandas", "torch", "typing_extensions"},
    "metrics": {"numpy", "torch", "torchmetrics", "typing_extensions"},
    "tasks": {"jaxtyping", "numpy", "pandas", "torch", "typing_extensions"},
    "tasks.metrics": {"torch", "typing_extensions"},
    "diagnosis": {"jaxtyping", "numpy", "torch"},
    "files": {"msgspec", "numpy", "torch"},
    "data": {"jaxtyping", "numpy", "torch"},
    "coco": {"matplotlib", "numpy", "torch"},
    "plot": {"PIL", "matplotlib", "numpy", "torch"},
    "report": {"PIL", "matplotlib", "numpy", "torch"},
    "integrations": {"PIL", "lightning", "matplotlib", "numpy", "torch", "torchmetrics"},
    "integrations.pictures": {"PIL", "matplotlib", "numpy", "torch"},
    "integrations.drawings": {"numpy", "torch", "torchmetrics"},
    "command": {"PIL", "numpy", "torch"},
    "": set(),
}
"""packages of others that each part may import; it may import the whole standard library"""

BY_STRING = "importlib.import_module"
NEVER = [
    *((layer, BY_STRING) for layer in ENGINE),
    ("functional", "torch.distributed"),
    ("report", "torch.distributed"),
    *((tool, "matplotlib.pyplot") for tool in ("integrations", "plot", "report")),
]
"""modules that a layer does not use although it may import the package: tools by a string, process groups, windows"""

WHOLES = ["", "private", "shared", "functional", "functional.retrieval", "functional.detection", "metrics"]
FILES = ("functional.detection.curves", "integrations.pictures", "tasks.walks", "tasks.rotated_boxes")
"""layers of one file"""

FACES = [f"{PACKAGE}.{layer}" for layer in LAYERS if layer not in (*WHOLES, *FILES)]
"""rooms that others enter by what their `__init__` imports"""


def modules() -> dict[str, str]:
    """Source of every module of the package by its dotted name, to be changed as one likes."""
    return dict(_modules())


@cache
def _modules() -> dict[str, str]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return found


@cache
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


@cache
def imports(module: str, source: str) -> list[str]:
    """Dotted names that a module imports, also in a string; `torch.distributed` also where it is only used."""
    return list(_imports(module, source))


def _imports(module: str, source: str) -> Iterator[str]:
    folder = module if is_face(module) else module.rpartition(".")[0]
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = node.module if not node.level else f"{folder}.{node.module}" if node.module else folder
            yield from (f"{origin}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Name) and node.id == "__import__":
            yield BY_STRING
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(f"{PACKAGE}."):
            yield node.value


def is_face(module: str) -> bool:
    return any(name.startswith(f"{module}.") for name in _modules())


def inside(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def parts_of(layer: str) -> list[str]:
    """The packages and modules of a layer."""
    names = {"private": PRIVATE, "shared": SHARED}.get(layer, [layer])
    return [f"{PACKAGE}.{name}".rstrip(".") for name in names]


def is_in(name: str, layer: str) -> bool:
    """Whether a name is that of a layer, or inside of it."""
    return any(inside(name, part) for part in parts_of(layer))


def layer_of(module: str, layers: Iterable[str]) -> str:
    """The layer of a module: the innermost one of those that hold it."""
    holding = [(len(part), layer) for layer in layers for part in parts_of(layer) if inside(module, part)]
    return max(holding)[1]


def forbidden_layers(sources: dict[str, str]) -> list[str]:
    """Imports from layers that are not among those that the layer of the module may import."""
    found = []
    for module, source in sources.items():
        layer = layer_of(module, LAYERS)
        names = [name for name in imports(module, source) if inside(name, PACKAGE)]
        found += [f"{module} imports {name}" for name in names if not may_import(layer, name)]
    return found


def may_import(layer: str, name: str) -> bool:
    """Whether a layer may import a name of the package: its own names, and those of the layers below."""
    if layer == "":
        return True
    return any(is_in(name, allowed) for allowed in (layer, *LAYERS[layer]))


def forbidden_packages(sources: dict[str, str]) -> list[str]:
    """Imports of packages of others that the part of the module may not import."""
    found = []
    for module, source in sources.items():
        allowed = {PACKAGE, *sys.stdlib_module_names, *PACKAGES[layer_of(module, PACKAGES)]}
        found += [f"{module} imports {package}" for package in packages(source) - allowed]
    return found


def packages(source: str) -> set[str]:
    """The packages that a module imports."""
    found = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(str(node.module).partition(".")[0])
    return found


def forbidden_uses(sources: dict[str, str], layer: str, banned: str) -> list[str]:
    """Modules of a layer that use a module of another package."""
    return [
        f"{module} imports {name}"
        for module, source in sources.items()
        if is_in(module, layer)
        for name in imports(module, source)
        if inside(name, banned)
    ]


def modules_behind(room: str) -> list[str]:
    """The modules of a room, without those of a room in it."""
    inner_faces = [f"{PACKAGE}.{layer}" for layer in LAYERS if f"{PACKAGE}.{layer}".startswith(f"{room}.")]
    of_room = [module for module in _modules() if module.startswith(f"{room}.")]
    return [module for module in of_room if not any(inside(module, face) for face in inner_faces)]


def back_doors(sources: dict[str, str], room: str) -> list[str]:
    """Imports from outside of a room that name one of its modules, not its face, nor that of a room in it."""
    of_room = modules_behind(room)
    return [
        f"{module} imports {name}"
        for module, source in sources.items()
        if not inside(module, room)
        for name in imports(module, source)
        if name.startswith(f"{room}.") and name.rpartition(".")[0] != room
        if any(inside(name, each) for each in of_room)
    ]


def dependencies(sources: dict[str, str]) -> dict[str, set[str]]:
    """Modules of the package that each module imports."""
    graph = {}
    for module, source in sources.items():
        named = {name if name in sources else name.rpartition(".")[0] for name in imports(module, source)}
        graph[module] = (named & sources.keys()) - {module}
    return graph


def test_a_layer_imports_those_that_it_may_import():
    assert forbidden_layers(modules()) == [], "a new module of both halves belongs in `SHARED`"


def test_the_layers_are_in_an_order():
    earlier = ["functional", "metrics"]  # each stands for all of its rooms
    for layer, allowed in LAYERS.items():
        assert set(allowed) <= set(earlier), f"{layer} may import layers that come after it"
        earlier.append(layer)


def test_a_layer_imports_those_packages_of_others_that_it_may_import():
    assert forbidden_packages(modules()) == []


def test_no_layer_uses_a_module_that_it_must_not_use():
    assert [use for layer, banned in NEVER for use in forbidden_uses(modules(), layer, banned)] == []


@pytest.mark.parametrize("layer", ENGINE)
def test_an_import_of_a_task_or_a_tool_by_the_engine_would_be_found(layer):
    module = f"{parts_of(layer)[0]}.thing"
    for outer in (*TASKS, *TOOLS):
        assert forbidden_layers({module: f"import {PACKAGE}.{outer}"}) == [f"{module} imports {PACKAGE}.{outer}"]


@pytest.mark.parametrize("layers", [RETRIEVAL, DETECTION], ids=["retrieval", "detection"])
def test_an_import_of_a_room_above_would_be_found(layers):
    half = f"{FUNCTIONAL}.{'retrieval' if layers is RETRIEVAL else 'detection'}"
    for room, above in pairwise([*layers, "evaluation"]):
        sources = {f"{half}.{room}.thing": f"from {half}.{above} import thing"}
        assert forbidden_layers(sources) == [f"{half}.{room}.thing imports {half}.{above}.thing"]


def test_every_package_that_no_layer_allows_would_be_found():
    for layer in PACKAGES:
        module = f"{parts_of(layer)[0]}.thing"
        assert forbidden_packages({module: "from pycocotools.mask import iou"}) == [f"{module} imports pycocotools"]


def test_every_use_that_is_not_allowed_would_be_found():
    for layer, banned in NEVER:
        sources = {parts_of(layer)[0]: f"import {banned}.thing"}
        assert forbidden_uses(sources, layer, banned), f"{layer} may use {banned} without a test that fails"


@pytest.mark.parametrize("breach", ["import {}", "from {} import thing", "thing = import_module('{}')"])
def test_every_way_for_the_engine_to_name_a_tool_would_be_found(breach):
    assert forbidden_layers({f"{FUNCTIONAL}.segments": breach.format(f"{PACKAGE}.plot")})


@pytest.mark.parametrize("breach", ["importlib.import_module(f'{name}')", "__import__('name')"])
def test_every_import_by_a_string_would_be_found(breach):
    assert forbidden_uses({f"{FUNCTIONAL}.segments": breach}, "shared", BY_STRING)


def test_rooms_are_entered_by_their_faces():
    assert [door for room in FACES for door in back_doors(modules(), room)] == []


def test_every_back_door_would_be_found():
    behind = {room: modules_behind(room)[0] for room in FACES}
    breaches = {room: {f"{PACKAGE}.thing": f"from {module} import thing"} for room, module in behind.items()}
    doors = {room: back_doors(breach, room) for room, breach in breaches.items()}
    assert doors == {room: [f"{PACKAGE}.thing imports {module}.thing"] for room, module in behind.items()}


def test_no_module_imports_itself_by_way_of_others():
    assert list(TopologicalSorter(dependencies(modules())).static_order())


def test_a_cycle_would_be_found():
    sources = modules()
    retrieval = f"{FUNCTIONAL}.retrieval"
    sources[f"{retrieval}.scores.rows"] += f"\nfrom {retrieval}.ranking import count_ranks"
    with pytest.raises(CycleError):
        list(TopologicalSorter(dependencies(sources)).static_order())


def test_every_room_of_the_package_has_its_room_of_tests():
    rooms = {path.parent.relative_to(ROOT) for path in ROOT.rglob("*.py") if path.name != "__init__.py"}
    tests = {path.parent.relative_to(Path(__file__).parent) for path in Path(__file__).parent.rglob("test_*.py")}
    assert rooms - tests == set()


def test_the_map_of_the_rooms_is_the_rooms():
    text = (Path(__file__).parents[1] / "docs" / "extending" / "map.md").read_text(encoding="utf-8")
    named, path = [], []
    for line in text.partition("```text\n")[2].partition("```")[0].splitlines():
        indent, name = len(line) - len(line.lstrip()), line.split()[0]
        if name.endswith("/"):
            path[indent // 2 - 1 :] = [name.rstrip("/")]
            named.append("/".join(path))
    rooms = [path.parent.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")]
    assert sorted(named) == sorted({room for room in rooms if room != "."})


def test_no_file_is_longer_than_500_lines():
    tests = {str(path): path.read_text(encoding="utf-8") for path in Path(__file__).parent.rglob("*.py")}
    lengths = {name: source.count("\n") for name, source in (modules() | tests).items()}
    assert {name: length for name, length in lengths.items() if length > 500} == {}


ONE_IMPORTER = {
    "coco.image_results": "pycocotools' form of what is known of an image; no number needs it",
    "command.streams": "two passes in the place of one, by a counter in the place of a metric",
    "data.box_layouts": "the layout of two folders, by the readers of all that it may be",
    "data.mat_files": "a format of files, with its layout",
    "data.yolo_layouts": "what the numbers of lines are, decided for all files; over 500 lines with the reader",
    "tasks.comparison.paired_detections": "two models, which no evaluation knows",
    "functional.detection.matching.assignment": "who takes what of the pairs that matching finds and orders",
    "tasks.camera_pairs": "functions of problems, which know no metric",
    "tasks.draws.hypergeometric": "distributions, which know no gallery",
    "tasks.draws.strata_ahead": "counting; over 400 lines with galleries",
    "integrations.drawings": "knows no Lightning, which the callback does",
    "metrics.detection.coco_files": "files that a metric writes and reads; over 400 lines with the metric",
    "metrics.reid.batches": "checks of a batch, which know neither samples nor rankings; over 500 lines with them",
    "plot.judged_boxes": "judges boxes, and draws nothing",
    "plot.warning_figure": "a subclass of Matplotlib's figure, imported when something is drawn",
    "report.detection_page": "one page",
    "report.retrieval_page": "one page",
    "tasks.comparison.paired_queries": "one order of the queries, with the reasons why there is none",
}
"""modules that a single other module imports, and why they are files of their own"""


def with_one_importer(sources: dict[str, str]) -> set[str]:
    """Modules that a single other module imports, which is not the face of their room; but for trials of causes."""
    graph = dependencies(sources)
    checked = [module for module in sources if ".diagnosis." not in module]
    importers = {module: [other for other in sources if module in graph[other]] for module in checked}
    return {
        module.removeprefix(f"{PACKAGE}.")
        for module, others in importers.items()
        if len(others) == 1 and not is_face(module) and others[0].removesuffix(".registry") != module.rpartition(".")[0]
    }


def test_a_file_that_one_other_imports_has_a_reason():
    found = with_one_importer(modules())
    without_reason = found - ONE_IMPORTER.keys()
    assert not without_reason, f"merge with the importer, or add the reason to `ONE_IMPORTER`: {without_reason}"
    assert found >= ONE_IMPORTER.keys(), f"no reason is needed in `ONE_IMPORTER` for {ONE_IMPORTER.keys() - found}"


def test_a_file_without_a_reason_would_be_found():
    sources = modules()
    sources[f"{FUNCTIONAL}.detection.matching.thing"] = ""
    sources[f"{FUNCTIONAL}.detection.matching.matches"] += "\nfrom .thing import thing"
    assert with_one_importer(sources) - ONE_IMPORTER.keys() == {"functional.detection.matching.thing"}


def repeated_classes(sources: dict[str, str]) -> dict[str, list[str]]:
    """Modules by the names of classes that two of them define, with or without an underscore."""
    defined: dict[str, list[str]] = {}
    for module, source in sources.items():
        for node in ast.walk(parsed(source)):
            if isinstance(node, ast.ClassDef):
                defined.setdefault(node.name.lstrip("_"), []).append(module)
    return {name: found for name, found in defined.items() if len(found) > 1}


def test_no_class_name_means_two_things():
    assert repeated_classes(modules()) == {}


def test_a_class_name_that_means_two_things_would_be_found():
    sources = modules()
    sources[f"{PACKAGE}.plot.thing"] = "class _Matches: ..."
    homonyms = {"Matches": [f"{FUNCTIONAL}.detection.matching.matches", f"{PACKAGE}.plot.thing"]}
    assert repeated_classes(sources) == homonyms
