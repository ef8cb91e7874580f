"""All of it on one page
=====================

``write_report`` puts numbers, intervals, conventions, curves, hard queries and
confident mistakes on one page of HTML. The page loads nothing, so it can be sent as one
file, or kept with the weights of a model.
"""

import torch
from hand_made.color_stripes import color_stripes

from reid.pedestrians import draw_pedestrians
from reid_torchmetrics import compare, write_report
from reid_torchmetrics.functional.retrieval import evaluate

# %%
# Two features are measured, as on the pages before:
#
# .. literalinclude:: /../examples/gallery/hand_made/color_stripes.py
#    :pyobject: color_stripes

splits = draw_pedestrians(1, 60, seed=0)
query, gallery = splits.query, splits.gallery
labels = (query.identities, gallery.identities, query.cameras, gallery.cameras)
four, six = (
    evaluate(
        color_stripes(query.pictures, n), color_stripes(gallery.pictures, n), *labels
    )
    for n in (4, 6)
)

# %%
# Everything but the results and the path is optional. Without ``pictures`` the page has
# tables and curves alone. With ``comparison`` it says what the newer model changed.

generator = torch.Generator().manual_seed(0)
comparison = compare(four, six, generator=generator, per_identity=True)
report = write_report(
    six,
    "reid_example_output/report.html",
    title="Colors in six stripes",
    pictures=query,
    gallery_pictures=gallery,
    comparison=comparison,
    num_hardest=6,
    num_mistakes=4,
)
print(f"{report}, {report.stat().st_size // 1024} KB")

# sphinx_gallery_thumbnail_path = "images/report_thumbnail.png"
