"""The parser of Market-1501 names and the reader of its folders."""

from pathlib import Path

import pytest
import torch
from PIL import Image

from reid.market1501 import MarketFolder, MarketName, parse_name, read_market1501


def test_a_name_gives_identity_camera_sequence_frame_and_box() -> None:
    assert parse_name("0002_c1s3_000451_03.jpg") == MarketName(identity=2, camera=1, sequence=3, frame=451, box=3)


def test_an_identity_of_four_digits_is_read_whole() -> None:
    assert parse_name("1501_c6s4_001877_01.jpg").identity == 1501


def test_minus_one_is_the_identity_of_junk() -> None:
    assert parse_name("-1_c3s2_000401_05.jpg") == MarketName(identity=-1, camera=3, sequence=2, frame=401, box=5)


def test_zeros_are_the_identity_of_distractors() -> None:
    assert parse_name("0000_c5s1_000151_01.jpg").identity == 0


def test_pictures_may_be_png() -> None:
    assert parse_name("0002_c1s1_000451_03.png").camera == 1


@pytest.mark.parametrize(
    "name",
    [
        "0002.jpg",
        "0002_c1_000451_03.jpg",
        "-2_c1s1_000451_03.jpg",
        "x0002_c1s1_000451_03.jpg",
        "0002_c1s1_000451_03.gif",
        "",
    ],
)
def test_another_name_is_an_error_that_quotes_it(name: str) -> None:
    with pytest.raises(ValueError, match="is not a Market-1501 name") as error:
        parse_name(name)
    assert repr(name) in str(error.value)


def test_the_three_folders_become_the_three_splits(market_folder: Path) -> None:
    splits = read_market1501(market_folder)
    assert [len(split) for split in splits] == [4 * 3 * 2, 3 * 3, 3 * 3 + 3]
    assert splits.train.identities.unique().tolist() == [2, 7, 10, 1500]
    assert splits.query.identities.unique().tolist() == [1, 3, 4]
    assert splits.gallery.identities.unique().tolist() == [-1, 0, 1, 3, 4]
    assert splits.query.cameras.unique().tolist() == [1, 2, 6]


def test_a_sample_is_picture_identity_camera_and_number(market_folder: Path) -> None:
    dataset = read_market1501(market_folder).query
    picture, identity, camera, index = dataset[5]
    # In order of their names: person 1 by cameras 1, 2 and 6, then person 3 by cameras 1, 2 and 6.
    assert (identity, camera, index) == (3, 6, 5)
    assert picture.dtype == torch.uint8
    assert picture.shape == (3, 128, 64)
    assert picture.float().mean().item() == pytest.approx(40 * 3 + 6, abs=2)


def test_pictures_of_another_size_are_resized(market_folder: Path) -> None:
    Image.new("L", (50, 90)).save(market_folder / "query" / "0009_c1s1_000001_00.png")
    assert read_market1501(market_folder).query[9][0].shape == (3, 128, 64)


def test_a_stray_picture_is_an_error_that_names_it(market_folder: Path) -> None:
    Image.new("RGB", (64, 128)).save(market_folder / "query" / "holiday.jpg")
    with pytest.raises(ValueError, match=r"holiday\.jpg"):
        read_market1501(market_folder)


def test_a_folder_without_pictures_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no picture in .*nowhere"):
        MarketFolder(tmp_path / "nowhere")
