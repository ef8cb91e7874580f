"""A distributed sampler without padding deals every sample once."""

import pytest

from reid_torchmetrics import UnpaddedDistributedSampler

NUM_SAMPLES = 31  # no multiple of 2, 3 or 4


@pytest.mark.parametrize("num_replicas", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("shuffle", [False, True])
def test_an_unpadded_sampler_deals_every_sample_once(num_replicas, shuffle):
    samplers = [
        UnpaddedDistributedSampler(range(NUM_SAMPLES), num_replicas, process, shuffle=shuffle, seed=3)
        for process in range(num_replicas)
    ]
    orders = []
    for epoch in (0, 1):
        for sampler in samplers:
            sampler.set_epoch(epoch)
        dealt_out = [list(sampler) for sampler in samplers]
        assert sorted(sum(dealt_out, [])) == list(range(NUM_SAMPLES))
        assert [len(sampler) for sampler in samplers] == [len(own) for own in dealt_out]
        assert max(map(len, dealt_out)) - min(map(len, dealt_out)) <= 1
        orders.append(dealt_out)
    assert (orders[0] == orders[1]) != shuffle


def test_an_unpadded_sampler_refuses_a_process_beyond_the_last():
    with pytest.raises(ValueError, match="rank"):
        UnpaddedDistributedSampler(range(3), 2, 2)
