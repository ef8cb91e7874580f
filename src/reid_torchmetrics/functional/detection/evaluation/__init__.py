"""The road of detection: from the images of all processes to `DetectionResults`."""

from .image_boxes import Asked, DictsOfSides, ImageBoxes, MatchedDetections, check_asked, choose_boxes, listed_ids
from .local_matches import Matched, MatchRequest
from .result_text import convention_of, name_of, named_classes
from .results import DetectionResults, make_results
from .sharded_images import gather_images, match_sharded_images
from .units import Units
from .values import SingleValue, Wanted, chosen_value, computed_values, name_and_label, prefix
