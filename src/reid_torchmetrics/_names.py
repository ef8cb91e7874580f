"""The values of options by name, as types: editors complete them and type checkers know them.

The tables of the package check them, and a test compares both.
"""

from __future__ import annotations

from typing import Literal

# Of embeddings.
SimilarityName = Literal["cosine", "euclidean", "dot"]
TieName = Literal["pessimistic", "optimistic", "stable", "grouped", "expected"]
CameraRule = Literal["same_identity", "all", "keep"]
ClothesRule = Literal["keep", "drop_same", "drop_other"]
RetrievalRule = Literal["rectangle", "trapezoid", "interpolated_11", "interpolated_101"]
Normalizer = Literal["positives", "attainable", "hits"]
PrecisionDivisor = Literal["k", "attainable", "last_positive"]
CmcMode = Literal["first_match", "all_shots"]
EmptyTargetAction = Literal["skip", "neg", "pos", "error"]
_OfPersons = Literal["market1501", "market1501_official", "dukemtmc", "msmt17", "mars", "regdb"]
_OfDrawnGalleries = Literal["cuhk03_np", "cuhk03_openreid", "cuhk03_torchreid", "vehicleid", "veri776"]
_OfSysu = Literal["sysu_mm01_all_single", "sysu_mm01_all_multi", "sysu_mm01_indoor_single", "sysu_mm01_indoor_multi"]
_OfOxford = Literal["oxford5k", "roxford5k_easy", "roxford5k_medium", "roxford5k_hard"]
_OfParis = Literal["paris6k", "rparis6k_easy", "rparis6k_medium", "rparis6k_hard"]
_OfTracks = Literal["veri776_image_to_track"]
_OfMetricLearning = Literal["gldv2", "cub200", "cars196", "sop", "inshop"]
ProtocolName = Literal[_OfPersons, _OfDrawnGalleries, _OfSysu, _OfOxford, _OfParis, _OfMetricLearning, _OfTracks]

# Of detections.
BoxFormat = Literal["xyxy", "xywh", "cxcywh"]
IouType = Literal["bbox", "segm", "keypoints", "rotated"]
DetectionRule = Literal["coco", "voc07", "voc", "yolo", "yolov5", "ultralytics"]
VocRule = Literal["voc", "voc07"]
YoloRule = Literal["yolo", "yolov5", "ultralytics", "voc"]
YoloMatching = Literal["ultralytics", "scaled_yolov4", "yolov4"]
Average = Literal["macro", "micro"]
Backend = Literal["pycocotools", "faster_coco_eval"]
InvalidAction = Literal["count", "drop", "raise"]
