"""Results of a stream: the numbers of `evaluate` for the whole gallery."""

from dataclasses import replace

import pytest
import torch

from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import evaluate, find_protocol
from reid_torchmetrics.tasks import RankCounter, evaluate_stream, find_duplicates
from tests.stream_problems import counter_of, drawn


@pytest.mark.filterwarnings("ignore:`protocol` .* leaves out gallery items by their cameras")
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.bool]
)
def test_a_stream_knows_its_queries_as_evaluate_and_metrics_do(dtype):
    codes = torch.randint(0, 2, (8, 80), generator=torch.Generator().manual_seed(0))
    rows = codes.to(dtype) if dtype in (torch.int64, torch.bool) else (2 * codes - 1).to(dtype)
    identities = torch.arange(8) % 4
    sides = rows[:4], rows[4:], identities[:4], identities[4:]
    counter = RankCounter(*sides, similarity="hamming", **find_protocol("market1501").relevance_options)
    metric = ReIDMetrics(similarity="hamming")
    metric.update(rows, identities, is_query=torch.arange(8) < 4)
    expected = evaluate(*sides, similarity="hamming", protocol="market1501")
    for results in (evaluate_stream(counter, 0, protocol="market1501"), metric.results()):
        assert results.query_hash == expected.query_hash

    duplicates = replace(find_duplicates(2.0 * codes[:4] - 1, 2.0 * codes[:4] - 1, threshold=0.99), query_hash=1)
    with pytest.raises(ValueError, match="`queries` must be"):
        evaluate_stream(counter, 0, protocol="market1501").means_without(duplicates)


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        ("cuhk03_torchreid", "draws galleries"),
        ("aicity", "got 'aicity' with same_camera='keep' for a counter with 'same_identity'"),
        ("oxford5k", "needs `ground_truth`"),
        ("unknown", "`protocol`"),
    ],
)
def test_a_protocol_that_a_counter_cannot_follow_is_refused(protocol, message):
    counter = counter_of(*drawn(0)[:2])
    with pytest.raises(ValueError, match=message):
        evaluate_stream(counter, 0, protocol=protocol)


@pytest.mark.usefixtures("unannotated")
def test_what_is_no_counter_is_refused():
    for value in (None, 7):
        with pytest.raises(TypeError, match=rf"^`counter` must be a RankCounter; got {type(value).__name__}\.$"):
            evaluate_stream(value, 0)
