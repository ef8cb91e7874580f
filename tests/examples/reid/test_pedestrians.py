"""The drawn data set: what it holds, and that a seed says it all."""

import pytest
import torch

from reid.pedestrians import draw_pedestrians
from reid.person_dataset import DISTRACTOR, JUNK, IdentitySampler, Splits

NUM_TRAIN, NUM_TEST = 5, 4
NUM_CAMERAS, NUM_SHOTS = 4, 3


@pytest.fixture(scope="module")
def splits() -> Splits:
    return draw_pedestrians(NUM_TRAIN, NUM_TEST, seed=0)


def pictures(splits: Splits) -> torch.Tensor:
    return torch.stack([split.picture(index) for split in splits for index in range(len(split))])


def test_every_person_is_seen_three_times_by_each_camera(splits: Splits) -> None:
    assert len(splits.train) == NUM_TRAIN * NUM_CAMERAS * NUM_SHOTS
    for identity in range(1, NUM_TRAIN + 1):
        cameras = splits.train.cameras[splits.train.identities == identity]
        assert cameras.bincount().tolist() == [0, 3, 3, 3, 3]


def test_a_test_identity_is_a_query_once_per_camera_and_in_the_gallery_twice(splits: Splits) -> None:
    queries = list(zip(splits.query.identities.tolist(), splits.query.cameras.tolist(), strict=True))
    gallery = list(zip(splits.gallery.identities.tolist(), splits.gallery.cameras.tolist(), strict=True))
    assert queries == [(identity, camera) for identity in (6, 7, 8, 9) for camera in (1, 2, 3, 4)]
    assert all(gallery.count(query) == 2 for query in queries)


def test_nobody_is_in_training_and_in_the_test(splits: Splits) -> None:
    train, test = set(splits.train.identities.tolist()), set(splits.query.identities.tolist())
    assert (train, test) == ({1, 2, 3, 4, 5}, {6, 7, 8, 9})


def test_the_gallery_alone_holds_distractors_and_junk_of_all_cameras(splits: Splits) -> None:
    for identity in (DISTRACTOR, JUNK):
        chosen = splits.gallery.identities == identity
        assert chosen.sum() == 2 * NUM_TEST
        assert splits.gallery.cameras[chosen].unique().tolist() == [1, 2, 3, 4]
        assert identity not in splits.train.identities
        assert identity not in splits.query.identities


def test_pictures_are_all_different(splits: Splits) -> None:
    everything = pictures(splits)
    assert everything.dtype == torch.uint8
    assert everything.shape[1:] == (3, 64, 32)
    assert len(everything.flatten(1).unique(dim=0)) == len(everything)


def test_a_seed_draws_the_same_pictures_again(splits: Splits) -> None:
    assert torch.equal(pictures(draw_pedestrians(NUM_TRAIN, NUM_TEST, seed=0)), pictures(splits))


def test_another_seed_draws_other_pictures(splits: Splits) -> None:
    assert not torch.equal(pictures(draw_pedestrians(NUM_TRAIN, NUM_TEST, seed=1)), pictures(splits))


def test_a_person_does_not_depend_on_how_many_are_drawn(splits: Splits) -> None:
    fewer = draw_pedestrians(2, 1, seed=0)
    assert all(
        torch.equal(fewer.train.picture(index), splits.train.picture(index)) for index in range(len(fewer.train))
    )


def test_a_batch_of_the_sampler_has_k_pictures_of_each_of_p_people(splits: Splits) -> None:
    batches = list(IdentitySampler(splits.train, num_identities=3, num_pictures=4, seed=0))
    assert len(batches) == 60 // (3 * 4)
    for batch in batches:
        _, counts = splits.train.identities[batch].unique(return_counts=True)
        assert counts.tolist() == [4, 4, 4]
        assert len(set(batch)) == 12


def test_the_samplers_of_two_devices_share_an_epoch_and_draw_other_batches(splits: Splits) -> None:
    samplers = [IdentitySampler(splits.train, num_identities=3, num_devices=2, seed=rank) for rank in (0, 1)]
    assert [len(sampler) for sampler in samplers] == [2, 2]  # of 60 // (3 * 4) == 5
    first, second = map(list, samplers)
    assert all(batch not in second for batch in first)


def test_the_sampler_repeats_pictures_of_somebody_with_fewer_than_k(splits: Splits) -> None:
    (batch, *_) = IdentitySampler(splits.query, num_identities=2, num_pictures=6, seed=0)
    _, counts = torch.tensor(batch).unique(return_counts=True)
    assert sorted(counts.tolist()) == [1, 1, 1, 1, 2, 2, 2, 2]
