"""The site: every public name is on one page of its reference, and links lead to where files are shown."""

import importlib
import inspect
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from torchmetrics import Metric

import reid_torchmetrics
from reid_torchmetrics import coco, data, integrations, plot, report, tasks
from reid_torchmetrics.functional import detection, retrieval

DOCS = Path(__file__).parents[1] / "docs"
FACES = (reid_torchmetrics, retrieval, detection, tasks, plot, report, integrations, data, coco)


def extension(name):
    """A module of the site that needs no Sphinx."""
    sys.path.insert(0, str(DOCS / "_ext"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(DOCS / "_ext"))


reference_pages, outside_links = map(extension, ("reference_pages", "outside_links"))


def identity(module, name):
    """What two names of the same thing share: the definition of a class or function, a constant and its name."""
    thing = getattr(module, name)
    if inspect.isclass(thing) or inspect.isfunction(thing):
        return thing.__module__, thing.__qualname__
    return id(thing), name


def test_every_public_name_is_on_exactly_one_page():
    public = {identity(face, name) for face in FACES for name in face.__all__}
    documented = Counter()
    for name in reference_pages.documented_names():
        module, _, last = name.rpartition(".")
        documented[identity(sys.modules[module], last)] += 1
    assert documented == Counter(public)
    assert len(public) <= 165  # each is kept for years


def test_names_for_extensions_are_on_the_faces_of_their_rooms_and_public_nowhere():
    page = (DOCS / "reference" / "extensions.md").read_text(encoding="utf-8")
    for section in page.split("\n## Names in ")[1:]:
        for room, names in re.findall(r"^\| `(\w+)` \| (.+) \|$", section, flags=re.MULTILINE):
            module = importlib.import_module(f"reid_torchmetrics.{section.split()[0]}.{room}")
            for name in re.findall(r"`(\w+)`", names):
                assert hasattr(module, name)
                assert [face.__name__ for face in FACES if hasattr(face, name)] == []


@pytest.mark.parametrize("face", FACES)
def test_a_face_shows_its_public_names_and_modules_alone(face):
    shown = {name for name in dir(face) if name[0] != "_" and not inspect.ismodule(getattr(face, name))}
    assert shown == {*face.__all__}


def test_the_first_page_has_a_line_of_words_for_every_name():
    pytest.importorskip("sphinx")
    table = extension("names_table").as_markdown()
    rows = re.findall(r"^\| {py:obj}`\w+ <([\w.]+)>` \| (.+) \|$", table, flags=re.MULTILINE)
    assert [name for name, _ in rows] == [*reference_pages.documented_names()]
    assert all(re.search(r"\w{2}", text) for _, text in rows)
    assert dict(rows)["reid_torchmetrics.ReIDMINP"].startswith("Mean inverse negative penalty")


def test_the_reference_says_what_the_short_names_of_metrics_are():
    page = (DOCS / "reference" / "embedding_metrics.md").read_text(encoding="utf-8")
    assert "`MeanAP`, `MINP` and `CMC` are short names of `ReIDMeanAP`, `ReIDMINP` and `ReIDCMC`." in page
    short = (reid_torchmetrics.MeanAP, reid_torchmetrics.MINP, reid_torchmetrics.CMC)
    assert [each.__name__ for each in short] == ["ReIDMeanAP", "ReIDMINP", "ReIDCMC"]


def test_the_page_of_each_metric_shows_its_update():
    for name in ("embedding_metrics", "detection_metrics"):
        page = (DOCS / "reference" / f"{name}.md").read_text(encoding="utf-8")
        for metric, options in re.findall(r"autoclass:: reid_torchmetrics\.(\w+)\n((?:   :.*\n)+)", page):
            if issubclass(getattr(reid_torchmetrics, metric), Metric):
                assert ":inherited-members: Metric" in options
                assert ":no-members:" not in options


OF_DETECTION, OF_RETRIEVAL = (f"reid_torchmetrics.functional.{half}" for half in ("detection", "retrieval"))
MEANT = [
    ("ReIDMeanAP", "reid_torchmetrics.ReIDMINP", "reid_torchmetrics.ReIDMeanAP"),
    ("average_precision", f"{OF_RETRIEVAL}.r_precision", f"{OF_RETRIEVAL}.average_precision"),
    ("average_precision", f"{OF_DETECTION}.compute_ap", None),
    ("functional.retrieval.cmc_curve", f"{OF_DETECTION}.compute_ap", f"{OF_RETRIEVAL}.cmc_curve"),
    ("AP_RULES", "reid_torchmetrics.ReIDMeanAP", None),
    ("EmbeddingMetric.results", "reid_torchmetrics.ReIDMetrics", "reid_torchmetrics.EmbeddingMetric.results"),
    ("EmbeddingMetric.no_method", "reid_torchmetrics.ReIDMetrics", None),
    ("embeddings", "reid_torchmetrics.ReIDMetrics", None),
]


@pytest.mark.parametrize(("text", "seen_from", "meant"), MEANT)
def test_a_name_in_a_docstring_means_what_is_documented_under_it(text, seen_from, meant):
    assert reference_pages.find_meant(text, seen_from=seen_from) == meant


def test_how_a_class_is_made_is_left_out_where_users_are_only_given_it():
    given = reference_pages.only_returned()
    assert "reid_torchmetrics.functional.retrieval.RetrievalResults" in given
    assert {f"reid_torchmetrics.tasks.{name}" for name in ("ConfusionMatrix", "ImageErrors", "Identification")} <= given
    assert "reid_torchmetrics.Protocol" not in given
    assert "reid_torchmetrics.functional.detection.Detections" not in given


LINKS = [
    ("[results](../benchmarks/RESULTS.md#speed)", "[results](numbers/benchmarks.md#speed)"),
    ("[rules](../CONTRIBUTING.md)", "[rules](contributing.md)"),
    ("[script](../examples/gallery/plot_cmc.py)", "[script](gallery/plot_cmc.rst)"),
    ("[gallery](../examples/gallery)", "[gallery](gallery/index.rst)"),
    ("[example](../examples/lightning_module.py)", "[example](../examples/lightning_module.py)"),
    ("[a](limits.md), [b](how_to/index.md#top)", "[a](limits.md), [b](how_to/index.md#top)"),
    ("[limits.md](limits.md)", "[](limits.md)"),
    ("![picture](images/rank_lists.png)", "![picture](images/rank_lists.png)"),
    ("[site](https://example.org/a.md) [here](#speed)", "[site](https://example.org/a.md) [here](#speed)"),
    ("```text\n[rules](../CONTRIBUTING.md)\n```\n", "```text\n[rules](../CONTRIBUTING.md)\n```\n"),
]


@pytest.mark.parametrize(("in_the_clone", "on_the_site"), LINKS)
def test_links_lead_to_the_page_that_shows_a_file(in_the_clone, on_the_site):
    page = DOCS / "scaling.md"
    assert outside_links.rewrite(in_the_clone, file=page, page=page) == on_the_site


def test_links_of_an_included_file_are_right_from_the_page_that_shows_it():
    file, page = DOCS.parent / "benchmarks" / "RESULTS.md", DOCS / "numbers" / "benchmarks.md"
    assert outside_links.rewrite("[model](../docs/scaling.md)", file=file, page=page) == "[model](../scaling.md)"


def test_files_that_pages_show_and_the_pages_are_there():
    for file, page in outside_links.SHOWN_BY.items():
        assert (DOCS.parent / file).is_file()
        assert (DOCS / page).is_file()


def test_the_page_of_numbers_counts_what_was_recorded():
    recorded = (DOCS.parent / "tests" / "golden" / "README.md").read_text(encoding="utf-8")
    counted = re.search(r"([\d,]+) arrays\s+and (\d+) errors", recorded)
    assert f"{counted[1]} arrays and {counted[2]} errors" in (DOCS / "numbers.md").read_text(encoding="utf-8")


def test_the_version_to_cite_is_that_of_the_package():
    assert f"version = {{{reid_torchmetrics.__version__}}}" in (DOCS / "cite.md").read_text(encoding="utf-8")
