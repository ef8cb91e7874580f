"""Exact means over random galleries
=================================

CUHK03, VehicleID and SYSU-MM01 draw their galleries at random, and papers report the
mean of ten draws. This page draws galleries by hand, shows how much the mean of ten
draws depends on chance, and computes the exact number that it estimates.
"""

import torch
from matplotlib.figure import Figure

from reid_torchmetrics import evaluate

# %%
# One draw, by hand
# -----------------
#
# In the classic protocol of CUHK03 the gallery has one image of each person: "single
# gallery shot". It is drawn for each query, without images of the query's person from
# the query's own camera. The query is correct at rank 1 if the image of its person
# scores higher than the images of all other people. The features are synthetic: a part
# for the person, a part for the camera, and noise. The first of three images from each
# of four cameras is a query.

generator = torch.Generator().manual_seed(0)
shown = torch.cartesian_prod(torch.arange(20), torch.arange(4), torch.arange(3))
people, views = (
    torch.randn(20, 8, generator=generator),
    torch.randn(4, 8, generator=generator),
)
features = people[shown[:, 0]] + 0.5 * views[shown[:, 1]]
features += torch.randn(features.shape, generator=generator)
is_query = shown[:, 2] == 0
query_features, gallery_features = features[is_query], features[~is_query]
query_identities, query_cameras = shown[is_query, 0], shown[is_query, 1]
identities, cameras = shown[~is_query, 0], shown[~is_query, 1]


def rank_1_of_draws(num_draws, generator):
    """Rank-1 of each draw of one image of each person, drawn anew for every query."""
    num_right = torch.zeros(num_draws)
    for row, (identity, camera) in enumerate(
        zip(query_identities, query_cameras, strict=True)
    ):
        is_candidate = (identities != identity) | (cameras != camera)
        drawn = []
        for person in identities.unique():
            images = ((identities == person) & is_candidate).nonzero()[:, 0]
            drawn.append(
                images[torch.randint(len(images), (num_draws,), generator=generator)]
            )
        drawn = torch.stack(drawn, dim=1)  # an image of each person, in each draw
        scores = torch.cosine_similarity(query_features[row], gallery_features, dim=1)
        best = drawn.gather(1, scores[drawn].argmax(dim=1, keepdim=True))[:, 0]
        num_right += identities[best] == identity
    return num_right / len(query_features)


by_hand = 100 * rank_1_of_draws(10, generator)
print("Rank-1 of ten draws:", " ".join(f"{each:.1f}" for each in by_hand))
print(f"their mean: {by_hand.mean():.2f} %")

# %%
# Ten draws, with 200 seeds
# -------------------------
#
# Another seed gives another mean. Here are the means of ten draws with 200 seeds.

tens = 100 * rank_1_of_draws(2000, generator).view(200, 10).mean(1)
print(f"from {tens.min():.2f} to {tens.max():.2f} %", end=", ")
print(f"standard deviation {tens.std():.2f} points")

# %%
# The number itself
# -----------------
#
# No draw is needed. The probability that an image of the query's person is drawn is
# known, and so is, for each other person, the probability that an image with a higher
# score is drawn. People are drawn independently of each other, so the probability that
# no other person is ahead is a product. Rank-1 is the sum of these probabilities, and
# the probability that fewer than k people are ahead gives rank k (see
# :doc:`/protocols`). ``evaluate`` computes it:

results = evaluate(
    query_features,
    gallery_features,
    query_identities,
    identities,
    query_cameras,
    cameras,
    protocol="cuhk03_torchreid",
)
print(results)

# %%
# The means of ten draws lie around the exact number. The width of the histogram is due
# to chance. This test set is small; with 100 people the standard deviation is still 1.2
# points (see :doc:`/concepts/expectations`). The line has no width: there is no seed,
# and the number is always the same.

exact = 100 * results.means["rank_1"]
figure = Figure(figsize=(6.4, 3.6), layout="constrained")
ax = figure.subplots()
step = 100 / len(query_features) / 10  # that two means differ by, at least
first, last = float(tens.min()) - step / 2, float(tens.max()) + 4 * step
ax.hist(
    tens, torch.arange(first, last, 4 * step), alpha=0.4, label="ten draws, 200 seeds"
)
ax.axvline(exact, color="black", label=f"exact expectation, {exact:.2f} %")
ax.plot([by_hand.mean()], [0.3], "^", color="tab:red", label="ten draws by hand")
ax.set(xlabel="Rank-1 (%)", ylabel="seeds", title="CUHK03, single gallery shot")
legend = ax.legend(fontsize="small")

# %%
# VehicleID
# ---------
#
# VehicleID draws one image of each identity as the gallery, and all other images are
# queries. The queries are therefore drawn as well. Pass all images once; each of them
# is weighted by the probability that it is a query.

vehicles = evaluate(gallery_features, query_identities=identities, protocol="vehicleid")
print(vehicles.means)

# %%
# This block draws galleries instead, and all queries share the gallery of a draw. The
# mean of all draws is near the exact number; the mean of ten draws is off by one or two
# points.

features = torch.nn.functional.normalize(gallery_features)
scores = features @ features.T
images_of = [(identities == person).nonzero()[:, 0] for person in identities.unique()]
draws = []
for _ in range(500):
    drawn = torch.stack(
        [
            images[torch.randint(len(images), (), generator=generator)]
            for images in images_of
        ]
    )
    is_query = torch.ones(len(identities), dtype=torch.bool).index_fill_(0, drawn, 0)
    best = drawn[scores[is_query][:, drawn].argmax(1)]
    draws.append((identities[best] == identities[is_query]).double().mean())
tens = 100 * torch.stack(draws).view(50, 10).mean(1)
print(f"mean of {len(tens)} times ten draws: {tens.mean():.2f} %", end=", ")
print(f"standard deviation of ten draws {tens.std():.2f} points")

# sphinx_gallery_thumbnail_number = 1
