"""IRRA's validation step with a collection in the place of its evaluator: the same numbers from the same loaders.

The evaluator below has the steps of theirs (anosorae/IRRA, utils/metrics.py): embed all texts and all images, multiply,
rank both ways, return the Rank-1 of text to image.
"""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.utils.data import DataLoader, TensorDataset

from reid_torchmetrics import Protocol, ReIDMetrics

RANKS = (1, 5, 10)


class TwoTowers(nn.Module):
    """A model of texts and images."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.image = nn.Linear(6, 16), nn.Linear(9, 16)

    def encode_text(self, text: Tensor) -> Tensor:
        return self.text(text)

    def encode_image(self, image: Tensor) -> Tensor:
        return self.image(image)


class TheirEvaluator:
    """Embeds both loaders, and ranks a matrix of similarities and its transpose by sorting."""

    def __init__(self, images: DataLoader, texts: DataLoader) -> None:
        self.images, self.texts = images, texts

    def eval(self, model: TwoTowers) -> tuple[float, dict[str, float]]:
        with torch.no_grad():
            texts, text_ids = self._embedded(self.texts, model.encode_text)
            images, image_ids = self._embedded(self.images, model.encode_image)
        similarity = normalize(texts) @ normalize(images).T
        table = {f"t2i/{name}": value for name, value in self._ranked(similarity, text_ids, image_ids).items()}
        table |= {f"i2t/{name}": value for name, value in self._ranked(similarity.T, image_ids, text_ids).items()}
        return table["t2i/rank_1"], table

    @staticmethod
    def _embedded(loader, encode):
        parts = [(ids, encode(batch)) for ids, batch in loader]
        return torch.cat([embeddings for _, embeddings in parts]), torch.cat([ids for ids, _ in parts])

    @staticmethod
    def _ranked(similarity, query_ids, gallery_ids):
        hits = (gallery_ids[similarity.argsort(dim=1, descending=True)] == query_ids[:, None]).double()
        found, place = hits.cumsum(1), torch.arange(1, hits.shape[1] + 1)
        last = [int(row.nonzero()[-1]) + 1 for row in hits]
        numbers = {"map": (hits * found / place).sum(1) / hits.sum(1), "minp": hits.sum(1) / torch.tensor(last)}
        numbers |= {f"rank_{k}": (found[:, :k].amax(1) > 0).double() for k in RANKS}
        return {name: 100 * float(values.mean()) for name, values in numbers.items()}


class OurEvaluator(TheirEvaluator):
    """The same steps: batches go to the collection as they come, and nothing is kept or multiplied by hand."""

    def eval(self, model: TwoTowers) -> tuple[float, dict[str, float]]:
        protocol = Protocol("cuhk_pedes", "Li et al., CVPR 2017", same_camera="keep", empty_target_action="neg")
        metrics = ReIDMetrics(RANKS, protocol=protocol, directions=("t2i", "i2t"))
        with torch.no_grad():
            for ids, text in self.texts:
                metrics.update(model.encode_text(text), ids, is_query=True)
            for ids, image in self.images:
                metrics.update(model.encode_image(image), ids, is_query=False)
        values = {name: float(value) for name, value in metrics.compute().items()}
        rsum, table = values.pop("rsum"), {name: 100 * value for name, value in values.items()}
        assert rsum == pytest.approx(sum(value for name, value in table.items() if "rank" in name), abs=1e-4)
        return table["t2i/rank_1"], table


def test_the_validation_step_returns_and_prints_the_same_numbers():
    generator = torch.Generator().manual_seed(0)
    people = torch.randn(20, 9, generator=generator)

    def loader(repeats, width):
        ids = torch.arange(20).repeat_interleave(repeats)
        values = people[ids, :width] + torch.randn(len(ids), width, generator=generator)
        return DataLoader(TensorDataset(ids, values), batch_size=16)

    torch.manual_seed(0)
    loaders, model = (loader(3, 9), loader(2, 6)), TwoTowers().eval()
    (first, theirs), (ours, table) = (kind(*loaders).eval(model) for kind in (TheirEvaluator, OurEvaluator))
    assert ours == pytest.approx(first, abs=1e-5)
    assert table == pytest.approx(theirs, abs=1e-5)
