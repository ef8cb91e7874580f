"""The pages for those who come from another tool: their parts and names; `test_docs_pages.py` runs their code."""

import ast
import inspect
import re

import pytest

import reid_torchmetrics
from reid_torchmetrics import DetectionMAP, DetectionMetrics, ReIDMeanAP, YoloMAP
from reid_torchmetrics.functional import detection, retrieval
from reid_torchmetrics.functional.detection.evaluation.results import DetectionResults
from reid_torchmetrics.functional.detection.evaluators import ClassAverages
from reid_torchmetrics.functional.detection.inputs import CocoGrid
from reid_torchmetrics.functional.retrieval import Protocol, RetrievalResults
from reid_torchmetrics.functional.retrieval.measures import parse_report
from tests.coming_from.pages import OURS, PAGES, TASKS, blocks, names, rows
from tests.test_docs import tables
from tests.test_docs_pages import DOCS
from tests.test_docs_pages import blocks as blocks_of

TOOLS = [page for page in PAGES if page != "index"]
TAKEN_BY = (retrieval.evaluate, retrieval.evaluate_scores, Protocol, ReIDMeanAP.update, DetectionMAP, YoloMAP)
ARGUMENTS = {name for function in TAKEN_BY for name in inspect.signature(function).parameters}
DATA = {name: getattr(reid_torchmetrics.data, name) for name in reid_torchmetrics.data.__all__}
EVERYTHING = vars(detection) | vars(retrieval) | TASKS | OURS | DATA
KEYS = {"boxes", "scores", "labels", "image_id", *CocoGrid().value_names, *DetectionMetrics().keys()}
RESULTS = {*dir(RetrievalResults), *RetrievalResults.__dataclass_fields__}
RESULTS |= {*dir(DetectionResults), *DetectionResults.__dataclass_fields__, *ClassAverages.__dataclass_fields__}


@pytest.mark.parametrize("page", TOOLS)
def test_a_page_has_their_call_ours_a_table_of_names_and_one_of_differences(page):
    headings = re.findall(r"^## (.+)$", PAGES[page], flags=re.MULTILINE)
    first = "pycocotools' numbers" if page == "mean_average_precision" else "The same number"
    assert headings == [first, "Names", "Where the numbers differ"]
    assert re.search(r"^Theirs\b", PAGES[page], flags=re.MULTILINE)
    assert blocks(page)
    assert rows(page)


@pytest.mark.parametrize("page", TOOLS)
def test_the_two_numbers_of_a_row_differ_unless_ours_is_theirs(page):
    for row in rows(page):
        assert (row.theirs == row.ours) == (row.code == ""), row


@pytest.mark.parametrize("page", TOOLS)
def test_every_name_of_ours_exists(page):
    (table,) = (table for table in tables(PAGES[page]) if table.header[1:] == ["here"])
    known = {*EVERYTHING, *names(page)} | ARGUMENTS | KEYS | {"dict", "results", "coco_results"}
    for span in re.findall(r"`(.+?)`", "\n".join(row["here"] for row in table.rows)):
        tree = parsed(span)
        nodes = [*ast.walk(tree)]
        assert {node.id for node in nodes if isinstance(node, ast.Name)} <= known, span
        assert {node.arg for node in nodes if isinstance(node, ast.keyword)} <= ARGUMENTS | options_of_calls(nodes), (
            span
        )
        assert attributes_of_results(nodes) <= RESULTS, span
        for report in re.findall(r"results\.(?:means|values)\[\"(\w+)\"\]", span):
            parse_report(report)


def attributes_of_results(nodes: list[ast.AST]) -> set[str]:
    """Return the attributes of `results` and `coco_results` in an expression."""
    asked = (node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name))
    return {node.attr for node in asked if node.value.id in {"results", "coco_results"}}


def parsed(span: str) -> ast.expr:
    """An expression, or the keyword arguments of a call."""
    try:
        return ast.parse(span, mode="eval").body
    except SyntaxError:
        return ast.parse(f"dict({span})", mode="eval").body


def options_of_calls(nodes: list[ast.AST]) -> set[str]:
    """What the classes, functions and methods that are called in an expression take."""
    methods = vars(RetrievalResults) | vars(DetectionResults)
    called = (node.func for node in nodes if isinstance(node, ast.Call))
    found = (EVERYTHING.get(each.id) if isinstance(each, ast.Name) else methods.get(each.attr) for each in called)
    return {name for each in found if each is not None for name in inspect.signature(each).parameters}


@pytest.mark.parametrize("page", [*TOOLS, "places"])
def test_a_function_to_copy_reads_each_of_its_arguments_or_the_page_says_that_one_has_no_effect(page):
    folder = DOCS / ("how_to" if page == "places" else "coming_from")
    text = (folder / f"{page}.md").read_text(encoding="utf-8")
    for block in blocks_of(folder / f"{page}.md"):
        for function in (node for node in ast.walk(ast.parse(block)) if isinstance(node, ast.FunctionDef)):
            read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
            given = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)} - {"self"}
            for name in given - read:
                assert re.search(rf"{name}\b[^.]*has no\s+effect", text), f"{function.name}: {name}"


def test_the_index_leads_to_every_page():
    assert set(re.findall(r"\((\w+)\.md\)", PAGES["index"])) == set(TOOLS)
