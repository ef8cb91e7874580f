"""Our own threads: every part once and in order, one thread of torch each, and nobody blocks anybody."""

import multiprocessing
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor

import pytest
import torch

from reid_torchmetrics import ReIDMeanAP, evaluate
from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.retrieval import rank_positives

CPU = torch.device("cpu")


@pytest.fixture(autouse=True, params=[1, 2, 3])
def _num_threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def test_results_are_in_the_order_of_the_parts():
    assert workers.share(lambda part: part**2, range(50)) == [part**2 for part in range(50)]
    assert workers.share(lambda part: part, []) == []


def test_every_part_is_done_with_one_thread_of_torch_and_the_caller_keeps_its_own():
    before = torch.get_num_threads()
    assert set(workers.share(lambda _: torch.get_num_threads(), range(20))) == {1}
    assert workers.run(torch.get_num_threads, CPU) == 1
    assert torch.get_num_threads() == before


def test_threads_that_begin_later_count_as_many_as_before():
    with ThreadPoolExecutor(1) as later:
        before = later.submit(torch.get_num_threads).result()
    workers._begin_anew()  # with a pool of new threads
    workers._pool.submit(lambda: None).result()
    with ThreadPoolExecutor(1) as later:
        assert later.submit(torch.get_num_threads).result() == before


def test_parts_share_out_parts_of_their_own():
    def of_tens(ten: int) -> list[int]:
        return workers.share(lambda part: 10 * ten + part, range(10))

    assert sum(workers.share(of_tens, range(8)), []) == list(range(80))
    assert sum(workers.share(of_tens, range(8), most=2), []) == list(range(80))
    assert workers.run(lambda: workers.run(lambda: of_tens(1), CPU), CPU) == list(range(10, 20))


def test_no_more_parts_are_done_at_a_time_than_may_be():
    at_a_time, most, lock = 0, 0, threading.Lock()
    expected = min(2, torch.get_num_threads())
    together = threading.Barrier(expected)

    def work(_: int) -> None:
        nonlocal at_a_time, most
        with lock:
            at_a_time += 1
            most = max(most, at_a_time)
        together.wait(60)  # a part ends when another one was begun beside it
        with lock:
            at_a_time -= 1

    workers.share(work, range(20), most=2)
    assert most == expected


def test_the_first_part_that_fails_is_told_and_no_more_are_begun():
    begun = []

    def work(part: int) -> None:
        begun.append(part)
        if part >= 5:
            raise ValueError(part)

    with pytest.raises(ValueError, match=r"^5$"):
        workers.share(work, range(1000))
    assert len(begun) < 1000


def test_gradients_and_inference_mode_are_those_of_the_caller():
    def modes(_: int = 0) -> tuple[bool, bool]:
        return torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    for context in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        with context():
            assert workers.run(modes, CPU) == modes()
            assert workers.share(modes, range(4)) == [modes()] * 4
    with torch.inference_mode():
        buffer = torch.zeros(8)  # which must not be written to outside of the mode
        workers.share(lambda part: buffer[part].fill_(part), range(8))
    assert buffer.tolist() == list(range(8))


def test_many_callers_do_not_block_each_other():
    def call(first: int) -> list[int]:
        return workers.share(lambda part: workers.share(part.__add__, range(first, first + 9))[0], range(9))

    with ThreadPoolExecutor(8) as callers:
        assert list(callers.map(call, range(40))) == [list(range(first, first + 9)) for first in range(40)]


def test_work_that_wants_it_stays_on_the_thread_that_asks():
    own = threading.get_ident()
    assert workers.run(threading.get_ident, CPU, inside=True) == own
    assert set(workers.run(lambda: workers.share(lambda _: threading.get_ident(), range(4)), torch.device("meta"))) == {
        own
    }
    seen = set()

    def similarity(query, gallery):
        seen.add(threading.get_ident())
        return query @ gallery.T

    embeddings, identities = torch.randn(300, 8), torch.arange(300) % 20
    rank_positives(embeddings, embeddings, identities, identities, similarity=similarity)
    assert seen == {own}


def test_functions_of_the_user_stay_on_the_thread_that_evaluates():
    seen = set()

    def similarity(query, gallery):
        seen.add(threading.get_ident())
        return query @ gallery.T

    def junk_pairs(query, items):
        seen.add(threading.get_ident())
        return (query[:, None] + items) % 7 == 0

    embeddings, identities = torch.randn(300, 8), torch.arange(300) % 20
    evaluate(embeddings[:40], embeddings[40:], identities[:40], identities[40:], similarity=similarity)
    evaluate(embeddings[:40], embeddings[40:], identities[:40], identities[40:], junk_pairs=junk_pairs)
    metric = ReIDMeanAP(similarity=similarity)
    metric.update(embeddings, identities)
    metric.compute()
    assert seen == {threading.get_ident()}


def test_work_that_nobody_waits_for_any_more_ends():
    ended = []

    class Interrupted(threading.Event):
        """Set when the caller goes, which is now."""

        def is_set(self) -> bool:
            return len(ended) >= 3

    def work() -> None:
        workers._place.is_unwanted, workers._place.num_threads = Interrupted(), 2
        workers.share(ended.append, range(1000))

    if torch.get_num_threads() > 1:
        with pytest.raises(CancelledError):
            workers.run(work, CPU)
        assert len(ended) < 1000


def _in_child(pipe) -> None:
    pipe.send(workers.share(lambda part: part, range(5)))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no process is forked here")
def test_a_forked_process_has_threads_of_its_own():
    workers.share(lambda part: part, range(5))
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_in_child, args=(theirs,))
    child.start()
    assert ours.poll(30)
    assert ours.recv() == list(range(5))
    child.join()


def test_ranks_do_not_depend_on_the_number_of_threads():
    generator = torch.Generator().manual_seed(0)
    query, gallery = (torch.randn(rows, 400, generator=generator) for rows in (70, 3000))
    identities = [torch.randint(0, 30, (len(side),), generator=generator) for side in (query, gallery)]
    found = rank_positives(query, gallery, *identities, max_bytes=1 << 22).rank
    torch.set_num_threads(1)
    assert torch.equal(found, rank_positives(query, gallery, *identities).rank)
