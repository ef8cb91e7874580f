"""Every page of the gallery, pasted into an empty file block by block; and what its text claims of its numbers."""

import ast
import os
import re
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

PAGES = {
    path.stem: path.read_text(encoding="utf-8") for path in Path(__file__).parents[3].glob("examples/gallery/*.py")
}
INSTALLED = {"torch", "numpy", "PIL", "matplotlib", "reid_torchmetrics"}  # with the extra `plot`
pytest.importorskip("matplotlib")


@cache
def run(page):
    """The names that the blocks of a page define, run one after the other in an empty folder."""
    names, before = {"__name__": "__main__"}, Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for block in re.split(r"^# %%$", PAGES[page], flags=re.MULTILINE):
                exec(compile(block, page, "exec"), names)  # noqa: S102 - our own text
        finally:
            os.chdir(before)
    return names


@pytest.mark.parametrize("page", sorted(PAGES))
def test_a_page_runs_in_an_empty_file(page):
    nodes = [*ast.walk(ast.parse(PAGES[page]))]
    imported = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    assert {name.partition(".")[0] for name in imported} <= INSTALLED | sys.stdlib_module_names
    assert run(page)


def test_text_that_pages_repeat_is_the_same_on_each():
    for name, pages in {"draw_person": "136", "draw_people": "136", "color_stripes": "136"}.items():
        trees = [ast.parse(text) for page, text in sorted(PAGES.items()) if page[5] in pages]
        found = {ast.dump(node) for tree in trees for node in tree.body if getattr(node, "name", "") == name}
        assert len(trees) == len(pages)
        assert len(found) == 1, name


def test_most_first_answers_that_are_not_at_rank_1_are_among_ten_and_the_worst_pair_of_cameras_is_from_0_to_2():
    names = run("plot_1_pedestrians")
    means, pairs = names["results"].means, names["pairs"]
    assert means["rank_10"] - means["rank_1"] > 0.5 * (1 - means["rank_1"])
    worst = divmod(int(pairs.mean.nan_to_num(1.0).argmin()), 4)
    assert (pairs.query_cameras[worst[0]], pairs.gallery_cameras[worst[1]]) == (0, 2)
    assert pairs.mean[2, 0] > 1.3 * pairs.mean[0, 2]


def test_there_are_132_times_as_many_impostors_and_a_threshold_holds_nearly_for_other_people():
    names = run("plot_2_thresholds")
    assert names["verification"].num_impostors == 132 * names["verification"].num_genuine
    assert float(names["new_far"]) == pytest.approx(names["far"], rel=0.1)


def test_the_difference_in_map_is_no_chance_and_one_as_large_at_rank_1_may_be():
    differences = run("plot_3_two_models")["comparison"].differences
    assert differences["map"].p_value < 0.001
    assert differences["map"].difference == pytest.approx(0.025, abs=0.002)
    assert differences["rank_1"].difference == pytest.approx(0.025, abs=0.002)
    assert differences["rank_1"].p_value > 0.05
    assert differences["rank_1"].low <= 0
    assert differences["rank_1"].high == pytest.approx(0.05, abs=0.002)


def test_most_errors_before_the_suppression_are_shapes_that_are_found_twice():
    names = run("plot_4_shapes")
    counts = names["before"].error_breakdown().counts
    assert max(counts, key=counts.get) == "duplicate"
    assert names["results"].error_breakdown().counts["duplicate"] == 0


def test_ten_draws_lie_around_the_expectation():
    names = run("plot_5_drawn_galleries")
    assert 100 * names["vehicles"].means["rank_1"] == pytest.approx(float(names["tens"].mean()), abs=0.7)
    assert 1 < float(names["tens"].std()) < 2
    assert abs(float(names["by_hand"].mean()) - names["exact"]) < 3


def test_rank_is_lost_in_three_epochs_and_map_falls_after_eight_where_nothing_pushes_apart():
    names = run("plot_7_collapse")
    collapse, healthy, best = names["collapse"], names["healthy"], names["best"]
    assert best == pytest.approx(8, abs=3)
    assert collapse["map"][best] > 4 * collapse["map"][0]
    assert collapse["map"][-1] < 0.9 * collapse["map"][best]
    assert collapse["rankme"][3] < 0.34 * collapse["rankme"][0]
    assert collapse["rankme"][best] < 0.27 * collapse["rankme"][0]
    assert max(collapse["dead_dimensions"]) == 0
    assert healthy["rankme"][-1] == pytest.approx(0.8 * healthy["rankme"][0], rel=0.05)
    assert healthy["map"][-1] == pytest.approx(0.83, abs=0.02)
    assert collapse["uniformity"][-1] > -0.1
    assert healthy["uniformity"][-1] < healthy["uniformity"][0]
