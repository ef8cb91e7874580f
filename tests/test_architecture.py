"""The import rules of the package, each proved to be able to fail."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

import reid_torchmetrics

ROOT = Path(reid_torchmetrics.__file__).parent
PACKAGE = ROOT.name
FUNCTIONAL = f"{PACKAGE}.functional"

ROOMS = {
    "relevance": (
        "scores",
        "ranking",
        "sharding",
        "measures",
        "draws",
        "reranking",
        "verification",
        "advice",
        "evaluation",
    ),
    "scores": ("ranking", "sharding", "measures", "draws", "reranking", "verification", "advice", "evaluation"),
    "ranking": ("sharding", "measures", "draws", "reranking", "verification", "advice", "evaluation"),
    "sharding": ("measures", "draws", "reranking", "verification", "advice", "evaluation"),
    "measures": ("scores", "sharding", "draws", "reranking", "verification", "advice", "evaluation"),
    "draws": ("sharding", "reranking", "verification", "advice", "evaluation"),
    "reranking": ("sharding", "measures", "draws", "verification", "advice", "evaluation"),
    "verification": ("sharding", "measures", "draws", "reranking", "advice", "evaluation"),
    "advice": ("sharding", "draws", "reranking", "verification", "evaluation"),
}
"""rooms of retrieval, and those that they must not know"""

DETECTION_ROOMS = {
    "inputs": ("batches", "matching", "curves", "errors", "evaluators", "advice", "evaluation"),
    "batches": ("matching", "curves", "errors", "evaluators", "advice", "evaluation"),
    "matching": ("batches", "curves", "errors", "evaluators", "advice", "evaluation"),
    "curves": ("batches", "errors", "evaluators", "advice", "evaluation"),
    "errors": ("batches", "evaluators", "advice", "evaluation"),
    "evaluators": ("batches", "errors", "advice", "evaluation"),
    "advice": ("curves", "errors", "evaluators", "evaluation"),
}
"""rooms of detection, and those that they must not know"""

FACES = [
    *(f"{FUNCTIONAL}.retrieval.{room}" for room in (*ROOMS, "evaluation")),
    *(f"{FUNCTIONAL}.detection.{room}" for room in (*DETECTION_ROOMS, "evaluation")),
    *(f"{PACKAGE}.metrics.{room}" for room in ("base", "reid", "detection")),
    *(f"{PACKAGE}.{tool}" for tool in ("coco", "command", "data", "integrations", "plot", "report")),
]
"""rooms that others enter by what their `__init__` imports"""

METRICS_WITHOUT = (("base", "retrieval"), ("base", "detection"), ("reid", "detection"), ("detection", "retrieval"))
"""rooms of metrics, and the half of `functional` that each must not know"""

GROUND = (
    "advice",
    "segments",
    "workers",
    "world",
    "result_cache",
    "fingerprints",
    "model_tables",
    "named_numbers",
    "result_files",
)
"""modules that retrieval and detection share, and that know neither"""

TOOLS = {
    "coco": (),
    "command": ("coco", "data", "integrations", "plot", "report"),
    "data": (),
    "integrations": ("plot",),
    "plot": (),
    "report": ("plot",),
}
"""the tools, and those that each may know; the engine knows none"""

PRIVATE = [f"{PACKAGE}.{path.stem}" for path in sorted(ROOT.glob("_*.py")) if path.stem.strip("_") == path.stem[1:]]
"""modules of the package that the engine and the tools share"""

ENGINE = [FUNCTIONAL, f"{PACKAGE}.metrics", *PRIVATE]


def not_known(rooms: Mapping[str, Sequence[str]], whole: str) -> list[tuple[str, str]]:
    """A rule for each room and each that it must not know."""
    return [(f"{whole}.{room}", f"{whole}.{other}") for room, others in rooms.items() for other in others]


BY_STRING = "importlib.import_module"

# (who, must not import)
RULES = [
    *((who, banned) for who in ENGINE for banned in (BY_STRING, *(f"{PACKAGE}.{tool}" for tool in TOOLS))),
    *not_known(
        {tool: [other for other in TOOLS if other not in (tool, *known)] for tool, known in TOOLS.items()}, PACKAGE
    ),
    *((who, f"{PACKAGE}.{layer}") for who in PRIVATE for layer in ("functional", "metrics")),
    *((FUNCTIONAL, other) for other in ("torchmetrics", "torch.distributed", f"{PACKAGE}.metrics")),
    *((who, other) for who in ENGINE for other in ("matplotlib", "PIL", "lightning", "pycocotools")),
    *not_known({"retrieval": ("detection",), "detection": ("retrieval",)}, FUNCTIONAL),
    *not_known(dict.fromkeys(GROUND, ("retrieval", "detection")), FUNCTIONAL),
    *not_known(ROOMS, f"{FUNCTIONAL}.retrieval"),
    *not_known(DETECTION_ROOMS, f"{FUNCTIONAL}.detection"),
    *not_known({"base": ("reid", "detection"), "reid": ("detection",), "detection": ("reid",)}, f"{PACKAGE}.metrics"),
    *((f"{PACKAGE}.metrics.{base}", f"{FUNCTIONAL}.{half}") for base, half in METRICS_WITHOUT),
    *((f"{PACKAGE}.{room}", f"{PACKAGE}.metrics") for room in ("coco", "plot")),
    *((f"{PACKAGE}.report", f"{PACKAGE}.metrics.{room}") for room in ("base", "reid")),
    *((f"{PACKAGE}.{tool}", "lightning") for tool in TOOLS if tool != "integrations"),
    *((f"{PACKAGE}.{tool}", "torchmetrics") for tool in ("coco", "report")),
    *((f"{PACKAGE}.{tool}", "matplotlib.pyplot") for tool in ("integrations", "plot", "report")),
    (f"{PACKAGE}.coco", "pycocotools"),
    (f"{PACKAGE}.report", "torch.distributed"),
    (f"{PACKAGE}.integrations.pictures", FUNCTIONAL),
    (f"{PACKAGE}.integrations.pictures", f"{PACKAGE}.metrics"),
    *((f"{PACKAGE}.integrations.pictures", logger) for logger in ("lightning", "pytorch_lightning", "wandb", "mlflow")),
    *((f"{PACKAGE}.integrations.drawings", trainer) for trainer in ("lightning", "pytorch_lightning")),
]


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
def imports(module: str, source: str) -> list[str]:
    """Dotted names that a module imports, also in a string; `torch.distributed` also where it is only used."""
    return list(_imports(module, source))


def _imports(module: str, source: str) -> Iterator[str]:
    folder = module if is_face(module) else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
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


def violations(sources: dict[str, str], who: str, banned: str) -> list[str]:
    return [
        f"{module} imports {name}"
        for module, source in sources.items()
        if inside(module, who)
        for name in imports(module, source)
        if inside(name, banned)
    ]


def back_doors(sources: dict[str, str], room: str) -> list[str]:
    """Imports from outside of a room that name one of its modules, not its face."""
    of_room = [module for module in sources if module.startswith(f"{room}.")]
    return [
        f"{module} imports {name}"
        for module, source in sources.items()
        if not inside(module, room)
        for name in imports(module, source)
        if any(inside(name, each) for each in of_room) and name.rpartition(".")[0] != room
    ]


def dependencies(sources: dict[str, str]) -> dict[str, set[str]]:
    """Modules of the package that each module imports."""
    graph = {}
    for module, source in sources.items():
        named = {name if name in sources else name.rpartition(".")[0] for name in imports(module, source)}
        graph[module] = (named & sources.keys()) - {module}
    return graph


def test_the_import_rules_hold():
    assert [breach for rule in RULES for breach in violations(modules(), *rule)] == []


def test_every_import_rule_can_fail():
    breaches = {(who, banned): {who: f"import {banned}.thing\n{modules().get(who, '')}"} for who, banned in RULES}
    assert [rule for rule, breach in breaches.items() if not violations(modules() | breach, *rule)] == []


@pytest.mark.parametrize(
    "breach",
    [
        "import {}",
        "from {} import thing",
        "thing = import_module('{}')",
        "importlib.import_module(f'{{name}}')",
        "__import__('{}')",
    ],
)
def test_every_way_for_the_engine_to_name_a_tool_would_be_found(breach):
    sources = {f"{FUNCTIONAL}.thing": breach.format(f"{PACKAGE}.plot")}
    assert any(violations(sources, who, banned) for who, banned in RULES)


def test_rooms_are_entered_by_their_faces():
    assert [door for room in FACES for door in back_doors(modules(), room)] == []


def test_every_back_door_would_be_found():
    behind = {room: next(module for module in modules() if module.startswith(f"{room}.")) for room in FACES}
    breaches = {room: {f"{PACKAGE}.thing": f"from {module} import thing"} for room, module in behind.items()}
    doors = {room: back_doors(modules() | breach, room) for room, breach in breaches.items()}
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
    text = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
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
    "command.exact_search": "embeddings by a metric, which no list needs",
    "command.streams": "two passes in the place of one, by a counter in the place of a metric",
    "data.hdf5_files": "a format of files, by a package that need not be installed",
    "data.mat_files": "a format of files, with its layout",
    "data.yolo_layouts": "what the numbers of lines are, decided for all files; over 500 lines with the reader",
    "data.yolo_tables": "arrays of all files, beside the reader of lines that knows every shape and words the errors",
    "functional.detection.advice.conditions": "when each row fires; over 500 lines with the registry",
    "functional.detection.advice.examples": "a problem for each row, made by hand; over 500 lines with the registry",
    "functional.detection.evaluation.paired_detections": "two models, which no evaluation knows",
    "functional.detection.evaluation.result_checks": "what must hold of a file; over 500 lines with the results",
    "functional.detection.evaluation.tensor_exchange": "the layout of what processes send, tested without images",
    "functional.detection.inputs.counted_masks": "ways to count pixels behind one contract; about 500 lines with masks",
    "functional.detection.matching.assignment": "who takes what of the pairs that matching finds and orders",
    "functional.detection.matching.deferred_acceptance": "the hard case of an assignment, with its worked example",
    "functional.retrieval.draws.hypergeometric": "distributions, which know no gallery",
    "functional.retrieval.draws.strata_ahead": "counting; over 400 lines with galleries",
    "functional.retrieval.ranking.whole_scores": "a way of counting of its own, with its worked example",
    "functional.retrieval.evaluation.list_ranks": "a way of ranking of its own, with its worked example",
    "functional.retrieval.evaluation.paired_queries": "one order of the queries, with the reasons why there is none",
    "functional.retrieval.evaluation.query_numbers": "from ranks to values; over 500 lines with the results",
    "functional.retrieval.advice.examples": "a problem for each row, made by hand; over 500 lines with the registry",
    "functional.retrieval.advice.positions": "a judgment of its own about units, with its constants",
    "functional.retrieval.advice.unknown_identities": "a judgment of its own about labels, with its constants",
    "functional.retrieval.evaluation.result_checks": "what must hold of a file; over 400 lines with the results",
    "functional.retrieval.ranking.query_blocks": "ways of counting, with their costs; over 500 lines with the pairs",
    "functional.retrieval.ranking.rank_table": "from counts to ranks; about 500 lines with the tiles of all processes",
    "functional.retrieval.ranking.symmetric": "counting in blocks of its own; over 500 lines with the tiles",
    "functional.retrieval.verification.symmetric_pairs": "a walk over blocks of its own, with its conditions",
    "functional.retrieval.sharding.repetitions": "which repeated samples count; over 400 lines with the shards",
    "integrations.drawings": "knows no Lightning, which the callback does",
    "metrics.detection.coco_files": "files that a metric writes and reads; over 400 lines with the metric",
    "metrics.reid.ranking": "`update` and the cache; over 500 lines with the options and methods of a metric",
    "plot.judged_boxes": "judges boxes, and draws nothing",
    "plot.warning_figure": "a subclass of Matplotlib's figure, imported when something is drawn",
    "report.detection_page": "one page",
    "report.retrieval_page": "one page",
}
"""modules that a single other module imports, and why they are files of their own"""


def with_one_importer(sources: dict[str, str]) -> set[str]:
    """Modules that a single other module imports, which is not the face of their room."""
    graph = dependencies(sources)
    importers = {module: [other for other in sources if module in graph[other]] for module in sources}
    return {
        module.removeprefix(f"{PACKAGE}.")
        for module, others in importers.items()
        if len(others) == 1 and not is_face(module) and others[0] != module.rpartition(".")[0]
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


FIRST_WORDS = re.compile(r"(of|what|how|where)\b", re.IGNORECASE)
NOT_IN_SUMMARIES = re.compile(r"\b(whom|whose|nobody|so many|whatever)\b", re.IGNORECASE)


def summaries(source: str) -> Iterator[str]:
    """The first lines of all docstrings: of modules, classes, functions, and of what is assigned a name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (text := ast.get_docstring(node)):
            yield text.splitlines()[0]
        body = getattr(node, "body", None)
        statements = body if isinstance(body, list) else []
        for assigned, said in pairwise(statements):
            is_text = isinstance(said, ast.Expr) and isinstance(said.value, ast.Constant)
            if isinstance(assigned, (ast.Assign, ast.AnnAssign)) and is_text:
                yield str(said.value.value).strip().splitlines()[0]


def unclear(sources: dict[str, str]) -> list[str]:
    return [
        f"{module}: {line}"
        for module, source in sources.items()
        for line in summaries(source)
        if NOT_IN_SUMMARIES.search(line) or FIRST_WORDS.match(line)
    ]


def test_a_summary_line_begins_with_a_verb_or_a_noun_and_has_no_word_that_makes_it_hard_to_read():
    assert unclear(modules()) == []


@pytest.mark.parametrize(
    "source",
    [
        '"""The boxes, whatever they are."""',
        'def boxes():\n    """Boxes of whom it is known."""',
        'class Boxes:\n    count: int\n    """so many boxes"""',
        'BOXES = 3\n"""boxes that nobody takes"""',
        'def boxes():\n    """What is in the boxes."""',
        'def boxes():\n    """Of each box its area."""',
    ],
)
def test_a_summary_line_with_such_a_word_would_be_found(source):
    assert len(unclear({"thing": source})) == 1


def repeated_classes(sources: dict[str, str]) -> dict[str, list[str]]:
    """Modules by the names of classes that two of them define, with or without an underscore."""
    defined: dict[str, list[str]] = {}
    for module, source in sources.items():
        for node in ast.walk(ast.parse(source)):
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
