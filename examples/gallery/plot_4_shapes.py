"""What a detector gets wrong
==========================

A single number tells how good a detector is. This page shows why it is not better: in
which classes, at which confidence, by which kind of error, and in which images.
"""

import torch

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.plot import (
    draw_box_grid,
    plot_confusion_matrix,
    plot_detection_confidence,
    plot_detection_precision_recall,
    plot_error_breakdown,
)
from reid_torchmetrics.tasks import non_maximum_suppression

# %%
# Images
# ------
#
# The images show discs, rectangles and triangles, small ones over large ones.

CLASSES = {0: "disc", 1: "rectangle", 2: "triangle"}


def draw_scene(number):
    """Up to five shapes, uint8 [3, 96, 96], and their boxes."""
    generator = torch.Generator().manual_seed(number)
    count = int(torch.randint(1, 6, (), generator=generator))
    sides = 10 * 4 ** torch.rand(count, 1, generator=generator).expand(-1, 2)
    sides = sides * (0.8 + 0.4 * torch.rand(count, 2, generator=generator))
    sides = sides[sides.prod(1).argsort(descending=True)]
    corners = (96 - sides) * torch.rand(count, 2, generator=generator)
    labels = torch.randint(3, (count,), generator=generator)
    image = torch.rand(3, 1, 1, generator=generator).expand(-1, 96, 96)
    pixels = torch.arange(96) + 0.5
    for corner, side, label in zip(corners, sides, labels.tolist(), strict=True):
        x, y = (
            2 * (pixels - start) / length - 1
            for start, length in zip(corner, side, strict=True)
        )
        y = y[:, None]  # both are -1 and 1 at the edges of the box
        inside = (
            x**2 + y**2 <= 1,
            (x.abs() <= 1) & (y.abs() <= 1),
            (2 * x.abs() <= y + 1) & (y <= 1),
        )[label]
        color = torch.rand(3, 1, 1, generator=generator)
        image = torch.where(inside, color, image)
    noisy = image + 0.05 * torch.randn(3, 96, 96, generator=generator)
    boxes = torch.cat([corners, corners + sides], dim=1)
    target = {"boxes": boxes, "labels": labels, "image_id": number}
    return (255 * noisy.clamp(0, 1)).byte(), target


# %%
# A detector
# ----------
#
# The detector is simulated. It knows the ground truths and makes all kinds of errors
# that detectors make: it misses small shapes, its boxes are shifted, it confuses
# shapes, detects some of them twice, and detects some where there is nothing. Its wrong
# detections have lower scores, but not always.

OTHERS = torch.tensor(
    [1, 0, 0]
)  # what a disc, a rectangle and a triangle are taken for


def detect(target):
    """Boxes, scores and labels, as detectors give them."""
    generator = torch.Generator().manual_seed(1000 + target["image_id"])
    boxes, labels = target["boxes"], target["labels"]
    sides = (boxes[:, 2:] - boxes[:, :2]).repeat(1, 2)
    chance = torch.rand(5, len(boxes), generator=generator)
    is_wrong, is_twice = chance[1] < 0.15, chance[2] < 0.3
    is_found = chance[0] < sides.amin(1) / 12
    quality = 0.4 + 0.6 * chance[3] - 0.2 * is_wrong
    offsets = torch.randn(2, len(boxes), 4, generator=generator) * sides
    moved = boxes + 0.12 * (1.1 - quality[:, None]) * offsets[0]
    again = moved + 0.03 * offsets[1]
    found = [(moved, quality, is_found), (again, 0.9 * quality, is_found & is_twice)]
    nothing = 70 * torch.rand(1, 2, generator=generator)
    background = torch.cat([nothing, nothing + 25], dim=1)
    labels = torch.where(is_wrong, OTHERS[labels], labels)
    boxes, scores, kept = (torch.cat(values) for values in zip(*found, strict=True))
    labels = torch.cat([labels, labels])[kept]
    return {
        "boxes": torch.cat([boxes[kept], background]),
        "scores": torch.cat([scores[kept], 0.6 * chance[4, :1]]),
        "labels": torch.cat([labels, torch.randint(3, (1,), generator=generator)]),
    }


images, targets = zip(*map(draw_scene, range(80)), strict=True)
detections = [detect(target) for target in targets]
print(f"{sum(len(each['labels']) for each in targets)} shapes")
print(f"{sum(len(each['labels']) for each in detections)} detections")

# %%
# The numbers of COCO
# -------------------
#
# ``DetectionMAP`` has the same input as TorchMetrics' metric. Its results contain more
# than the numbers. With ``across_classes=True`` they also contain the overlaps of boxes
# of different classes, which are needed to distinguish the kinds of errors.


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
# TIDE assigns a kind to every error. Each bar is the gain in average precision if only
# the errors of one kind were repaired. This is not the number of errors: errors with a
# low score cost little.

figure, _ = plot_error_breakdown(results.error_breakdown())

# %%
# Duplicates are the easiest to repair. If a shape is detected twice, the second
# detection is wrong. Non-maximum suppression keeps the better one.

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
# The figure shows precision over recall for each class. A curve that ends early belongs
# to a class with missed shapes. A curve that falls early belongs to a class with wrong
# detections that have high scores.

figure, _ = plot_detection_precision_recall(results, class_names=CLASSES)

# %%
# Before and after, as means over the classes:

figure, _ = plot_detection_precision_recall(
    {"with duplicates": before, "without": results}
)

# %%
# At which confidence?
# --------------------
#
# Average precision depends on all scores. A user of the detector accepts only
# detections above one confidence. The line is the confidence with the highest F1.

figure, _ = plot_detection_confidence(results)
print(results.class_table())

# %%
# Which shapes are confused?
# --------------------------
#
# Rows are the true shapes, and columns are the detected shapes. The last column counts
# missed shapes, and the last row counts detections where there is no shape. With a
# confidence of 0 the matrix contains all detections.

confusion = results.confusion_matrix(confidence=0.0)
figure, _ = plot_confusion_matrix(confusion, class_names=CLASSES)

# %%
# The same in words:

for taken, taken_for, times in confusion.most_confused(3).tolist():
    print(f"{CLASSES[taken]} taken for a {CLASSES[taken_for]}: {times}")

# %%
# The worst images
# ----------------
#
# Correct detections are green, wrong ones red, and missed shapes blue and dashed.

confidences = results.best_confidences()
worst = results.worst_images(6).image.tolist()
worst_images = draw_box_grid(
    [images[number] for number in worst],
    [suppressed[number] for number in worst],
    [targets[number] for number in worst],
    columns=3,
    class_names=CLASSES,
    min_score=confidences,
)

# sphinx_gallery_thumbnail_number = 7
