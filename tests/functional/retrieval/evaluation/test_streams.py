"""Results of a stream: the numbers of `evaluate` for the whole gallery."""

import pytest
import torch

from reid_torchmetrics.functional.retrieval import evaluate, evaluate_stream, find_protocol
from tests.stream_problems import counted, counter_of, drawn, joined


@pytest.mark.parametrize("protocol", ["market1501", "aicity", "casia_b"])
def test_a_stream_has_all_numbers_of_the_whole_gallery(protocol):
    query, positives, blocks = drawn(3)
    counter = counter_of(query, positives, **find_protocol(protocol).relevance_options)
    gallery = joined(positives, blocks)
    expected = evaluate(query[0], gallery[0], query[1], gallery[1], query[2], gallery[2], protocol=protocol)
    results = evaluate_stream(counter, counted(counter, blocks), protocol=protocol)
    assert results.to_dict() == expected.to_dict()
    assert torch.equal(results.cmc, expected.cmc)


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
