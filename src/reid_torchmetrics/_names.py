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
Normalizer = Literal["positives", "attainable", "hits", "k"]
PrecisionDivisor = Literal["k", "attainable", "last_positive", "calibrated"]
Gain = Literal["linear", "exponential"]
CmcMode = Literal["first_match", "all_shots"]
EmptyTargetAction = Literal["skip", "neg", "pos", "error"]
FpirRule = Literal["largest", "nearest", "floor", "strict"]
PairMetric = Literal["accuracy", "auc", "eer", "eer_voxceleb", "min_dcf", "tar_at_far"]
_OfPersons = Literal["market1501", "market1501_official", "dukemtmc", "msmt17", "mars", "mars_official", "casia_b"]
_OfDrawnGalleries = Literal["cuhk03_np", "cuhk03_openreid", "cuhk03_torchreid"]
_OfVehicles = Literal["vehicleid", "veri776", "veri776_official", "veri776_image_to_track", "aicity"]
_OfClothes = Literal["prcc", "prcc_single_shot", "deepchange", "vc_clothes", "celeb_reid"]
_OfSysu = Literal["sysu_mm01_all_single", "sysu_mm01_all_multi", "sysu_mm01_indoor_single", "sysu_mm01_indoor_multi"]
_OfTexts = Literal["cuhk_pedes", "icfg_pedes", "rstpreid", "flickr30k", "coco_captions", "msrvtt"]
_OfOxford = Literal["oxford5k", "roxford5k_easy", "roxford5k_medium", "roxford5k_hard"]
_OfParis = Literal["paris6k", "rparis6k_easy", "rparis6k_medium", "rparis6k_hard"]
_OfMetricLearning = Literal["gldv2", "cub200", "cars196", "sop", "inshop"]
_OfLists = Literal["trec", "cuhk_sysu", "prw"]
_OfLabeledClothes = Literal["ltcc", "ltcc_cc", "ltcc_sc", "ccvid_cc"]
_OfPlaces = Literal["pitts30k", "tokyo247", "msls", "nordland"]
_Others = Literal["sketchy", "hashing", "guie", "happywhale"]
_OfReid = Literal[_OfPersons, _OfDrawnGalleries, _OfVehicles, _OfClothes, _OfLabeledClothes, _OfSysu, "regdb", "llcm"]
ProtocolName = Literal[_OfReid, _OfTexts, _OfOxford, _OfParis, _OfMetricLearning, _OfLists, _OfPlaces, _Others]

# Of detections.
BoxFormat = Literal["xyxy", "xywh", "cxcywh"]
IouType = Literal["bbox", "segm", "keypoints", "rotated"]
LvisIouType = Literal["bbox", "segm"]
DetectionRule = Literal["coco", "voc07", "voc", "yolo", "yolov5", "ultralytics"]
ThresholdsName = Literal["coco", "torchmetrics"]
VocRule = Literal["voc", "voc07"]
YoloRule = Literal["yolo", "yolov5", "ultralytics", "voc"]
YoloMatching = Literal["ultralytics", "scaled_yolov4", "yolov4"]
Average = Literal["macro", "micro"]
Backend = Literal["pycocotools", "faster_coco_eval"]
InvalidAction = Literal["count", "drop", "raise"]
