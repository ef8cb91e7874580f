"""A bar after five seconds, where a person sees it, and nothing elsewhere."""

import io
import sys
from types import SimpleNamespace

import pytest
import torch

from reid_torchmetrics import GalleryDraw, _progress, progress, write_report
from reid_torchmetrics.functional.detection import Detections, GroundTruths, evaluate_boxes
from reid_torchmetrics.functional.retrieval import evaluate, find_relevance, rank_positives, score_embeddings
from reid_torchmetrics.functional.retrieval.ranking import count_sharded_ranks
from reid_torchmetrics.tasks import find_duplicates, index_recall, person_search, rerank_k_reciprocal, score_histogram
from reid_torchmetrics.tasks.draws import expect_draws
from tests.distributed import threads
from tests.paths import path
from tests.report import problems

pytest.importorskip("tqdm")


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(_progress, "monotonic", clock)
    return clock


def with_standard_error(monkeypatch, stream):
    monkeypatch.setattr(
        _progress, "sys", SimpleNamespace(stderr=stream)
    )  # that of this module alone: pytest has its own
    return stream


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setitem(_progress._settings, "is_on", True)
    monkeypatch.delenv(_progress.VARIABLE, raising=False)
    monkeypatch.delenv("RANK", raising=False)
    return with_standard_error(monkeypatch, Terminal())


def seconds(clock, steps, each=1.0):
    """A loop of `steps`, `each` of some seconds; what was written after each step."""
    written = []
    for _ in _progress.steps(steps, "Ranking"):
        clock.now += each
        written.append(_progress.sys.stderr.getvalue())
    return written


def in_the_end(written):
    """What stands in the last line of a terminal."""
    return written.rpartition("\r")[2].strip()


def test_a_bar_is_shown_after_five_seconds_and_not_before(clock, terminal):
    written = seconds(clock, range(9))
    assert written[:5] == [""] * 5
    assert "Ranking:  56%" in written[5]
    assert "5/9" in written[5]
    assert in_the_end(terminal.getvalue()) == ""


def test_nothing_is_shown_of_what_takes_five_seconds_at_most(clock, terminal):
    seconds(clock, range(5))
    assert terminal.getvalue() == ""


def test_steps_are_counted_where_their_number_is_not_known(clock, terminal):
    assert "Ranking: 5it" in seconds(clock, iter(range(9)))[-1]


class Bar:
    """A bar that records each position; tqdm leaves out those that follow within a tenth of a second."""

    def __init__(self, total, initial, **options):
        self.total = total
        self.n = initial
        self.positions = [initial]

    def update(self, number):
        self.n += number
        self.positions.append(self.n)

    def close(self):
        pass


@pytest.fixture
def bars(clock, terminal, monkeypatch):
    opened = []
    monkeypatch.setattr("tqdm.tqdm", lambda **options: opened.append(Bar(**options)) or opened[-1])
    return opened


def test_a_bar_moves_within_a_long_step_and_never_beyond_its_end(clock, bars):
    for _ in _progress.steps(range(2), "Ranking", parts=3):
        for _ in range(4):  # one more than announced
            clock.now += 6
            _progress.part_done()
    (bar,) = bars
    assert bar.total == 6
    assert bar.positions == [1, 2, 3, 3, 3, 4, 5, 6, 6, 6]


def test_parts_of_no_loop_are_not_shown(clock, terminal):
    _progress.part_done()
    assert terminal.getvalue() == ""


def test_all_items_are_given_with_a_bar_and_without(clock, terminal):
    assert [*_progress.steps("abc", "Ranking")] == ["a", "b", "c"]
    given = []
    for item in _progress.steps("abc", "Ranking"):
        clock.now += 10
        given.append(item)
    assert given == ["a", "b", "c"]
    assert "Ranking" in terminal.getvalue()


def test_a_bar_is_closed_by_an_error_and_by_a_break(clock, terminal):
    def fail():
        for _ in _progress.steps(range(9), "Ranking"):
            clock.now += 10
            if "Ranking" in terminal.getvalue():
                raise ValueError("seen")

    with pytest.raises(ValueError, match="seen"):
        fail()
    assert in_the_end(terminal.getvalue()) == ""
    for step in _progress.steps(range(9), "Again"):
        clock.now += 10
        if step == 3:
            break
    assert "Again" in terminal.getvalue()
    assert in_the_end(terminal.getvalue()) == ""
    assert not _progress._one_bar.locked()


def test_a_loop_inside_of_a_loop_with_a_bar_shows_none(clock, terminal):
    for step in _progress.steps(range(3), "Report"):
        clock.now += 10
        if step:  # there is a bar from the second step on
            seconds(clock, range(9))
    assert "Report" in terminal.getvalue()
    assert "Ranking" not in terminal.getvalue()


def switched_off(monkeypatch):
    progress(False)


def by_the_variable(monkeypatch):
    monkeypatch.setenv("REID_TORCHMETRICS_PROGRESS", "0")


def no_terminal(monkeypatch):
    with_standard_error(monkeypatch, io.StringIO())


def on_process_1(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)


def on_process_1_of_torchrun(monkeypatch):
    monkeypatch.setenv("RANK", "1")


def without_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)


@pytest.mark.parametrize(
    "happens", [switched_off, by_the_variable, no_terminal, on_process_1, on_process_1_of_torchrun, without_tqdm]
)
def test_nothing_is_shown(happens, clock, terminal, monkeypatch):
    happens(monkeypatch)
    seconds(clock, range(20))
    assert _progress.sys.stderr.getvalue() == ""


def test_nothing_is_shown_without_standard_error(clock, terminal, monkeypatch):
    for stream in (None, Terminal()):
        with_standard_error(monkeypatch, stream)
        if stream is not None:
            stream.close()
        for _ in _progress.steps(range(3), "Ranking"):
            clock.now += 10


def test_process_0_of_several_shows_a_bar(clock, terminal, monkeypatch):
    monkeypatch.setenv("RANK", "1")  # of another launcher: the process group knows better
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
    assert "Ranking" in seconds(clock, range(9))[-1]


def test_bars_are_switched_off_until_the_end_of_a_with_statement(clock, terminal):
    with progress(False):
        assert seconds(clock, range(9))[-1] == ""
    assert "Ranking" in seconds(clock, range(9))[-1]


def test_the_switch_takes_a_bool():
    with pytest.raises(TypeError, match="`enabled` must be True or False; got int"):
        progress(0)


def boxes(number):
    corners = torch.rand(number, 2, generator=torch.Generator().manual_seed(0))
    return torch.cat([corners, corners + 0.5], 1).double()


def test_a_tile_of_queries_against_a_large_gallery_moves_the_bar_panel_by_panel(bars, monkeypatch):
    monkeypatch.setattr(*path("progress_delay"), 0.0)
    query, gallery, labels = torch.randn(4, 8), torch.randn(4000, 8), torch.arange(4000) % 4
    evaluate(query, gallery, labels[:4], labels, max_bytes=50_000)
    assert bars[0].total >= 4
    assert sorted(set(bars[0].positions)) == list(range(1, bars[0].total + 1))


def rank_lists(query, gallery, labels, **bound):
    evaluate(query, gallery, *labels, **bound).nearest(2)


def draw_galleries(query, gallery, labels, **bound):
    relevance = find_relevance(*labels)
    expect_draws(score_embeddings(query, gallery, relevance, **bound), relevance, GalleryDraw(1))


def histogram(query, gallery, labels, **bound):
    relevance = find_relevance(*labels)
    score_histogram(score_embeddings(query, gallery, relevance, **bound), relevance)


def search_persons(query, gallery, labels, **bound):
    boxes, numbers = torch.tensor([[0.0, 0.0, 9.0, 9.0]]).expand(len(gallery), 4), torch.arange(len(gallery))
    images = {"images": numbers, "query_images": numbers, "true_images": numbers}
    identities = {"query_identities": labels[0], "true_identities": labels[1]}
    person_search(query, gallery, boxes, true_boxes=boxes, **images, **identities)


def rank_shards(query, gallery, labels, **bound):
    def rank(world):
        part = slice(world.process, None, 2)
        relevance = find_relevance(labels[0], labels[1][part])
        count_sharded_ranks(
            world, score_embeddings(query, gallery[part], relevance, **bound), relevance, ties="pessimistic"
        )

    threads.run(2, rank)


def detect(query, gallery, labels, max_bytes):
    number, images = 400, torch.arange(400) // 20
    zeros = torch.zeros(number, dtype=torch.int64)
    found = Detections(boxes(number), torch.rand(number), zeros, images)
    evaluate_boxes(found, GroundTruths(boxes(number), zeros, images), max_bytes=max_bytes)


@pytest.mark.parametrize(
    ("function", "shown"),
    [
        (lambda query, gallery, labels, **bound: rank_positives(query, gallery, *labels, **bound), "Ranking"),
        (lambda query, gallery, labels, **bound: rerank_k_reciprocal(query, gallery, **bound), "Neighbors"),
        (rank_shards, "Ranking"),
        (rank_lists, "Rank lists"),
        (draw_galleries, "Drawn galleries"),
        (histogram, "Pairs"),
        (lambda query, gallery, labels, **bound: find_duplicates(query, gallery, **bound), "Duplicates"),
        (
            lambda query, gallery, labels, **bound: index_recall(labels[0][:, None], query, gallery, **bound),
            "Index recall",
        ),
        (search_persons, "Person search"),
        (detect, "Overlaps"),
    ],
)
def test_a_long_loop_shows_a_bar(function, shown, terminal, monkeypatch):
    monkeypatch.setattr(*path("progress_delay"), 0.0)
    query, gallery = torch.randn(60, 8), torch.randn(60, 8)
    labels = torch.arange(60) % 20, torch.arange(60) % 20
    function(query, gallery, labels, max_bytes=5_000)
    assert f"{shown}:" in terminal.getvalue()


def test_a_report_shows_a_bar_of_its_pictures(tmp_path, terminal, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(*path("progress_delay"), 0.0)
    results = problems.of_metric(rank_lists=problems.rank_lists())
    pictures = [problems.picture(number) for number in range(4)]
    write_report(results, tmp_path / "report.html", pictures=pictures, gallery_pictures=pictures)
    assert "Pictures:" in terminal.getvalue()
