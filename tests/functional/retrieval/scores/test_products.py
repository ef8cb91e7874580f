"""Matrix products: bits that depend on nothing but the two vectors, and a precision that nobody can take away."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest
import torch

from reid_torchmetrics.functional.retrieval import rank_positives
from reid_torchmetrics.functional.retrieval.scores import products, similarity
from reid_torchmetrics.functional.retrieval.scores.products import BLOCK, full_precision, product
from reid_torchmetrics.functional.retrieval.scores.rows import Rows
from reid_torchmetrics.functional.retrieval.scores.scores import EmbeddingScores
from reid_torchmetrics.functional.retrieval.scores.similarity import gallery_statistics
from tests.closeness import assert_close
from tests.profiles import each_row, of_each
from tests.strategies import SIMILARITIES_OF_ALL

DTYPES = (torch.float32, torch.float64)
WIDTHS = of_each((384, 1000, 64, 300, 512, 2048), suite=3)  # 384 float32 or 192 float64 are added up in one product
SIZES = (1, 49, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 1)
CPU = torch.device("cpu")


@contextmanager
def threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def float32_precision(value: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(value)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def scores_of(query: torch.Tensor, gallery: torch.Tensor) -> torch.Tensor:
    out = torch.empty(len(query), len(gallery), dtype=query.dtype)
    product(query, gallery, out)
    return out


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_score_has_the_same_bits_wherever_its_query_and_item_stand(width, dtype):
    generator = torch.Generator().manual_seed(width)
    query = torch.randn(40, width, dtype=dtype, generator=generator)
    gallery = torch.randn(2 * BLOCK + 1, width, dtype=dtype, generator=generator)
    expected = scores_of(query, gallery)
    assert_close(expected.double(), query.double() @ gallery.double().T, atol=1e-3)
    for number in (1, 3):
        for size in SIZES:
            first = (len(gallery) - size) * 2 // 3
            for rows in (slice(0, 1), slice(3, 20), slice(0, 40)):
                with threads(number):
                    found = scores_of(query[rows], gallery[first : first + size])
                assert torch.equal(found, expected[rows, first : first + size])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.slow
def test_equal_items_have_equal_scores_around_every_edge_of_a_block(width, dtype):
    generator = torch.Generator().manual_seed(width)
    query, item = (torch.randn(rows, width, dtype=dtype, generator=generator) for rows in (9, 1))
    for number in (1, 2):
        for size in (47, 48, 49, *range(BLOCK - 2, BLOCK + 4), BLOCK + 48, BLOCK + 49, 2 * BLOCK - 1, 2 * BLOCK + 1):
            with threads(number):
                scores = scores_of(query, item.expand(size, width))
            assert torch.equal(scores, scores[:, :1].expand_as(scores))


@each_row("name", SIMILARITIES_OF_ALL)
def test_scores_of_the_parts_of_a_gallery_are_those_of_the_whole(name):
    generator = torch.Generator().manual_seed(0)
    query, gallery = (torch.randn(rows, 512, generator=generator) for rows in (20, 1500))
    sums = gallery_statistics(name, Rows([gallery]), torch.float32)

    def scores(part: torch.Tensor, max_bytes: int) -> torch.Tensor:
        given = EmbeddingScores(
            Rows([query]), Rows([part]), similarity=name, max_bytes=max_bytes, dtype=torch.float32, sums=sums
        )
        out = torch.empty(len(query), len(part))
        given.fill(out, slice(0, len(query)), slice(0, len(part)))
        return out

    expected = scores(gallery, 1 << 28)
    for max_bytes in (1 << 18, 1 << 24, 1 << 28):
        for cuts in ([500, 1000], [1, 1499], [1009, 491], [300] * 5):
            assert torch.equal(torch.cat([scores(part, max_bytes) for part in gallery.split(cuts)], 1), expected)


def test_products_are_taken_in_float64_where_float32_is_reduced():
    generator = torch.Generator().manual_seed(0)
    query, gallery = (torch.randn(rows, 300, generator=generator) for rows in (5, 1100))
    with mock.patch.object(products, "is_float32_reduced", return_value=True):
        assert torch.equal(scores_of(query, gallery), (query.double() @ gallery.double().T).float())


@pytest.mark.parametrize("chosen", ["highest", "high", "medium"])
def test_a_reduced_precision_is_noticed_whoever_asked_for_it(chosen):
    fine = torch.full((64, 64), 1 + 2**-12)
    with float32_precision(chosen):
        assert products.is_float32_reduced() == bool((torch.mm(fine, torch.eye(64)) != fine).any())


def test_scores_on_the_cpu_touch_no_setting_of_the_process():
    seen = []

    def look(*args):
        seen.append(torch.get_float32_matmul_precision())
        return product(*args)

    query, identities = torch.randn(6, 4), torch.arange(6) % 3
    with float32_precision("high"), mock.patch.object(similarity, "product", look):
        rank_positives(query, query, identities, identities)
    assert set(seen) == {"high"}


def test_a_function_of_the_user_finds_full_precision_as_long_as_any_thread_wants_it():
    query, identities = torch.randn(6, 4), torch.arange(6) % 3
    seen, inside, may_end = [], threading.Barrier(2, timeout=30), threading.Event()

    def slow(first, second):
        seen.append(torch.get_float32_matmul_precision())
        if not may_end.is_set():
            inside.wait()
            may_end.wait(30)
        seen.append(torch.get_float32_matmul_precision())
        return first @ second.T

    def quick(first, second):
        seen.append(torch.get_float32_matmul_precision())
        return first @ second.T

    with float32_precision("medium"):
        other = threading.Thread(
            target=rank_positives, args=(query, query, identities, identities), kwargs={"similarity": slow}
        )
        other.start()
        inside.wait()
        rank_positives(query, query, identities, identities, similarity=quick)  # begins and ends inside the other
        assert torch.get_float32_matmul_precision() == "highest"
        may_end.set()
        other.join()
        assert torch.get_float32_matmul_precision() == "medium"
    assert set(seen) == {"highest"}


@pytest.mark.skipif(not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="older PyTorch")
def test_a_precision_of_one_backend_is_put_back_as_it_was():
    backends = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
    before = [backend.fp32_precision for backend in backends]
    try:
        backends[1].fp32_precision = "bf16"  # PyTorch now refuses to name one precision for all
        with full_precision(CPU, foreign=True):
            assert [backend.fp32_precision for backend in backends] == ["ieee", "ieee"]
        assert [backend.fp32_precision for backend in backends] == [before[0], "bf16"]
        backends[0].fp32_precision = "tf32"
        rank_positives(*torch.randn(2, 6, 4), *torch.arange(6).expand(2, 6) % 3)
        assert [backend.fp32_precision for backend in backends] == ["tf32", "bf16"]
    finally:
        for backend, value in zip(backends, before, strict=True):
            backend.fp32_precision = value


@pytest.mark.parametrize("chosen", ["highest", "high", "medium"])
def test_a_function_of_the_user_may_ask_by_any_name_what_is_set(chosen):
    def settings():  # a compiled function asks for both, and PyTorch refuses to tell where they contradict
        return torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32

    with float32_precision(chosen):
        before = settings()
        for _ in range(2):
            with full_precision(CPU, foreign=True):
                assert settings() == ("highest", False)
            assert settings() == before


def test_two_evaluating_threads_leave_the_precision_alone_and_every_score_exact():
    # Coordinates need 9 bits, one more than bfloat16 has; sums of their products are exact in float32.
    query, gallery = (torch.randint(-400, 401, (rows, 64)).float() for rows in (32, 400))
    labels = torch.arange(32) % 8, torch.arange(400) % 8
    expected = rank_positives(query, gallery, *labels, similarity="dot").rank
    found = []

    def evaluate():
        found.extend(rank_positives(query, gallery, *labels, similarity="dot").rank for _ in range(20))

    with float32_precision("medium"):
        both = [threading.Thread(target=evaluate) for _ in range(2)]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        assert torch.get_float32_matmul_precision() == "medium"
    assert len(found) == 40
    assert all(torch.equal(ranks, expected) for ranks in found)
