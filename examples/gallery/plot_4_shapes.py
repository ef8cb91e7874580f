"""What a detector gets wrong
==========================

One number says how good a detector is. This page finds out why it is not better: which
classes, at which confidence, by which kind of error, and in which images.
"""

import torch
from hand_made.shape_finder import find_shapes

from detection.drawn_shapes import CLASSES, draw_scene
from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.functional.detection import non_maximum_suppression
from reid_torchmetrics.plot import (
    draw_box_grid,
    plot_confusion_matrix,
    plot_detection_confidence,
    plot_detection_precision_recall,
    plot_error_breakdown,
)

# %%
# A detector without training
# ---------------------------
#
# The images show discs, rectangles and triangles, some of them half hidden. The
# detector takes the noise out, and then looks for regions whose neighboring pixels have
# nearly one color. A region that fills its box is a rectangle; a disc fills 79 % of it,
# and a triangle a half. The better it fits, the higher is the score. Regions are looked
# for twice, with a weak and with a strong contrast.
#
# .. dropdown:: The detector, whole
#
#    .. literalinclude:: /../examples/gallery/hand_made/shape_finder.py
#       :start-at: FILLED

scenes = [draw_scene(number, seed=0) for number in range(80)]
images = torch.stack([image for image, _ in scenes])
targets = [target for _, target in scenes]
detections = find_shapes(images, contrasts=(0.05, 0.09))
print(f"{sum(len(each['labels']) for each in targets)} shapes")
print(f"{sum(len(each['labels']) for each in detections)} detections")

# %%
# The numbers of COCO
# -------------------
#
# ``DetectionMAP`` is fed as the metric of TorchMetrics. Its results hold more than the
# numbers: with ``across_classes=True`` also which boxes of different classes overlap,
# from which errors are told apart.


def evaluate(detections):
    """The results of all images."""
    metric = DetectionMAP(class_names=CLASSES)
    metric.update(detections, targets)
    return metric.results(across_classes=True)


results = evaluate(detections)
print(results)

# %%
# What would it gain?
# -------------------
#
# Every wrong detection is of a kind, after TIDE. The bars are what average precision
# would gain if the errors of one kind, and no others, were repaired. That is not how
# many there are: errors with a low score cost little.

figure, _ = plot_error_breakdown(results.error_breakdown())

# %%
# Duplicates are the cheapest to repair. A shape that is found at both contrasts is
# found twice, and the second one is wrong. Non-maximum suppression keeps the better
# one.

suppressed = []
for found in detections:
    boxes, scores, labels = found["boxes"], found["scores"], found["labels"]
    kept = non_maximum_suppression(boxes, scores, labels, iou_threshold=0.7)
    suppressed.append({name: values[kept] for name, values in found.items()})
before, results = results, evaluate(suppressed)
for name in ("map", "map_50", "map_75", "mar_100"):
    numbers = [100 * each.summary()[name] for each in (before, results)]
    print(f"{name:8} {numbers[0]:5.1f} % before, {numbers[1]:5.1f} % after")
figure, _ = plot_error_breakdown(results.error_breakdown())

# %%
# Where precision is lost
# -----------------------
#
# Precision over recall of each class. A curve that ends early misses shapes at any
# score; one that falls early has wrong detections with high scores.

figure, _ = plot_detection_precision_recall(results, names=CLASSES)

# %%
# Before and after, as means over the classes:

figure, _ = plot_detection_precision_recall(
    {"with duplicates": before, "without": results}
)

# %%
# At which confidence?
# --------------------
#
# Average precision looks at all scores. Who uses the detector accepts what scores above
# one confidence. The line is where F1 is highest.

figure, _ = plot_detection_confidence(results)
print(results.class_table())

# %%
# Which shapes are taken for which?
# ---------------------------------
#
# Rows are the shapes, columns what they were detected as. The last column was missed,
# the last row is of detections where there is no shape. A confidence of 0 shows all
# that was found.

confusion = results.confusion_matrix(confidence=0.0)
figure, _ = plot_confusion_matrix(confusion, names=CLASSES)

# %%
# Where something lies over a corner of a rectangle, what is left fills its box like a
# disc, or like a triangle.

for taken, taken_for, times in confusion.most_confused(3).tolist():
    print(f"{CLASSES[taken]} taken for a {CLASSES[taken_for]}: {times}")

# %%
# The worst images
# ----------------
#
# Right detections are green, wrong ones red, and missed shapes blue and dashed. Most
# errors have one of two reasons: a shape lies over another, of which something of
# another form is left to see, or a shape has nearly the color of what is behind it.

confidences = results.best_confidences()
worst = results.worst_images(6).image.tolist()
worst_images = draw_box_grid(
    images[worst],
    [suppressed[number] for number in worst],
    [targets[number] for number in worst],
    columns=3,
    names=CLASSES,
    min_score=confidences,
)

# sphinx_gallery_thumbnail_number = 7
