"""The network of the example and what trains it."""

import pytest
import torch

from reid.embedding_network import EmbeddingNetwork, augment, batch_hard_triplet_loss


def test_the_triplet_loss_takes_the_farthest_positive_and_the_nearest_negative() -> None:
    features = torch.tensor([[0.0], [1.0], [3.0], [7.0]])
    labels = torch.tensor([5, 5, 8, 8])
    # Positives at 1, 1, 4, 4 and negatives at 3, 2, 2, 6: only the third sample is nearer to a stranger, by 2.
    assert batch_hard_triplet_loss(features, labels, margin=0.5).item() == pytest.approx((4 - 2 + 0.5) / 4)


def test_the_triplet_loss_of_a_collapsed_network_is_its_margin_and_has_a_gradient() -> None:
    features = torch.zeros(4, 3, requires_grad=True)
    loss = batch_hard_triplet_loss(features, torch.tensor([1, 1, 2, 2]), margin=0.3)
    loss.backward()
    assert loss.item() == pytest.approx(0.3, abs=1e-5)
    assert features.grad is not None
    assert features.grad.isfinite().all()


@pytest.mark.parametrize("size", [(64, 32), (128, 64)])
def test_the_network_embeds_pictures_of_either_data_set(size: tuple[int, int]) -> None:
    network = EmbeddingNetwork(num_identities=7).eval()
    embeddings = network(torch.zeros(2, 3, *size, dtype=torch.uint8))
    assert embeddings.shape == (2, 256)
    assert network.classify(embeddings).shape == (2, 7)


def test_augmentation_keeps_type_and_size_and_changes_every_picture() -> None:
    images = torch.randint(0, 256, (6, 3, 64, 32), dtype=torch.uint8)
    augmented = augment(images)
    assert augmented.dtype == torch.uint8
    assert augmented.shape == images.shape
    assert (augmented != images).flatten(1).any(1).all()
