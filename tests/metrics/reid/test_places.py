"""Samples with positions and without identities: metrics hold, merge, save and restore them, and results know them."""

import pytest
import torch

from reid_torchmetrics import ReIDMeanAP
from reid_torchmetrics.functional.retrieval import GalleryDraw, Protocol, evaluate, evaluate_scores
from tests.metrics.reid.samples import fed

PLACES = Protocol("places", "me", same_camera="keep", junk_identities=(), radius=25.0, reports=("hit_rate_1", "map"))


def batches(total: int = 60, size: int = 16, **others) -> list[dict]:
    generator = torch.Generator().manual_seed(0)
    positions = torch.randint(0, 12, (total, 2), generator=generator) * 10.0 + 5e6
    near = (positions - 5e6).float() / 60
    data = {
        "embeddings": torch.cat([near, near.flip(1)], dim=1) + torch.randn(total, 4, generator=generator),
        "positions": positions.double(),
        "is_query": torch.arange(total) % 3 == 0,
        **others,
    }
    return [{name: values[first : first + size] for name, values in data.items()} for first in range(0, total, size)]


def slow_value(given: list[dict]) -> float:
    """Mean average precision by one call, of samples put together."""
    columns = {name: torch.cat([batch[name] for batch in given]) for name in ("embeddings", "positions", "is_query")}
    query, gallery = columns["is_query"], ~columns["is_query"]
    sides = columns["embeddings"][query], columns["embeddings"][gallery]
    found = {"query_positions": columns["positions"][query], "gallery_positions": columns["positions"][gallery]}
    return evaluate(*sides, **found, protocol=PLACES)["map"]


VALUE = pytest.approx(slow_value(batches()), abs=1e-6)


def test_merging_adds_samples_and_those_that_do_not_fit_are_named():
    given = batches()
    metric = fed(ReIDMeanAP(protocol=PLACES), given[:2])
    metric.merge_state(fed(ReIDMeanAP(protocol=PLACES), given[2:]))
    metric.merge_state(ReIDMeanAP(protocol=PLACES))
    assert float(metric.compute()) == VALUE
    metric.merge_state(fed(ReIDMeanAP(protocol=PLACES), [{**given[0], "positions": given[0]["positions"][:, :1]}]))
    with pytest.raises(ValueError, match=r"^`positions` must have as many coordinates .*; got 1 after 2\.$"):
        metric.compute()


def test_a_state_dict_and_casts_keep_positions_in_float64():
    metric = fed(ReIDMeanAP(protocol=PLACES), batches())
    metric.persistent(mode=True)
    restored = ReIDMeanAP(protocol=PLACES)
    restored.persistent(mode=True)
    restored.load_state_dict(metric.state_dict())
    assert float(restored.compute()) == VALUE
    restored.set_dtype(torch.float16)
    assert {block.dtype for block in restored.positions} == {torch.float64}
    assert restored.embeddings[0].dtype == torch.float16
    assert restored.positions[0].equal(metric.positions[0])
    assert {block.device.type for block in restored.to("meta").positions} == {"meta"}


def test_a_gathering_function_of_the_users_gathers_positions():
    def gathered(values, group):
        return [values]

    metric = fed(ReIDMeanAP(protocol=PLACES, dist_sync_fn=gathered, distributed_available_fn=lambda: True), batches())
    assert float(metric.compute()) == VALUE


BAD = [
    ({"positions": None}, "`positions` must be given for `radius` 25.0; got none."),
    ({"positions": torch.full((16, 2), torch.inf)}, "`positions` must be finite; got 16 rows"),
    ({"positions": torch.zeros(16)}, "`positions` must have as many coordinates as in earlier batches; got 1 after 2."),
    ({"clothes": torch.zeros(16).long()}, "`clothes` must be given in every batch or in none; got a batch with it"),
]


@pytest.mark.parametrize(("changed", "message"), BAD)
def test_a_refused_batch_stores_nothing(changed, message):
    metric = fed(ReIDMeanAP(protocol=PLACES), batches()[:1])
    with pytest.raises(ValueError, match=r"^`") as raised:
        metric.update(**{**batches()[1], **changed})
    assert str(raised.value).startswith(message)
    assert {len(getattr(metric, name)) for name in ("embeddings", "positions", "roles")} == {1}
    fed(metric, batches()[1:])
    assert float(metric.compute()) == VALUE


def test_options_that_need_a_label_say_so_and_lists_take_none():
    with pytest.raises(ValueError, match=r"^`gallery_draw` needs relevance by identity; got `radius` 25\.0\.$"):
        ReIDMeanAP(gallery_draw=GalleryDraw(), radius=25.0)
    metric = ReIDMeanAP(clothes="drop_same")
    with pytest.raises(ValueError, match=r"^`clothes` must be given for `clothes` 'drop_same'; got none\.$"):
        metric.update(torch.ones(2, 3), torch.arange(2))
    scores, lists = torch.ones(1, 2), [{"ok": [0]}]
    for option in ({"radius": 5.0}, {"clothes": "drop_same"}):
        name = next(iter(option))
        with pytest.raises(ValueError, match=f"^`{name}` must come with labels; got `ground_truth`, lists"):
            evaluate_scores(scores, ground_truth=lists, **option)
