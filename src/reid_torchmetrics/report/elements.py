"""Elements of a page: escaped text, tables, embedded figures and pictures, and numbers as the page shows them."""

from __future__ import annotations

import base64
import html
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np

from reid_torchmetrics.functional.model_tables import in_words
from reid_torchmetrics.functional.retrieval.measures import parse_report, title_of

UNDEFINED = "undefined"
_VOID = frozenset({"img", "input", "link", "meta"})
_QUALITY = 65  # of JPEG
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # letters of names, perhaps
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


class Html(str):
    """Markup: it is not escaped again."""

    __slots__ = ()


def element(name: str, /, *content: str, **attributes: object) -> Html:
    """One element; `content` is escaped unless it is `Html`.

    An attribute's `_` stands for `-`, and one at its end for nothing (`class_`). True is an attribute without a value;
    None and False leave it out.
    """
    written = "".join(_attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{join(content)}</{name}>")


def join(content: Iterable[str], between: str = "") -> Html:
    """Several elements and texts as one."""
    return Html(between.join(each if isinstance(each, Html) else html.escape(each, quote=False) for each in content))


def table(
    caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, words: str = "", filter_by: str = ""
) -> Html:
    """A table in a box that scrolls, with shadows where it does; the first column names its rows.

    Args:
        caption: of the table.
        columns: headings.
        rows: cells, as many as columns.
        words: the column of words, which are wrapped; the others hold numbers.
        filter_by: label of a filter for the beginning of the rows' names; empty for no filter.
    """
    kinds = ["words" if column == words else None for column in columns]
    heads = (element("th", column, scope="col", class_=kind) for column, kind in zip(columns, kinds, strict=True))
    body = []
    for first, *others in rows:
        cells = (element("td", cell, class_=kind) for cell, kind in zip(others, kinds[1:], strict=True))
        body.append(element("tr", element("th", first, scope="row"), *cells))
    # A caption stays in view where the table is wider than the window, and is scrolled.
    said = element("caption", element("span", caption))
    parts = said, element("thead", element("tr", *heads)), element("tbody", join(body, between="\n"))
    box = element("div", element("table", *parts), class_="scroll", role="region", aria_label=caption, tabindex="0")
    if not filter_by:
        return box
    field = element("input", type="search", autocomplete="off", data_column=0)
    return filtered([element("label", f"{filter_by} ", field)], box)


def filtered(fields: Sequence[Html], *content: str) -> Html:
    """Tables and lists under fields that choose and sort their items, each by the fact at its `data_column`."""
    # Without scripts they would do nothing, so it is the script that shows them.
    said = join([*fields, element("output")], " ")
    return element("div", element("p", said, hidden=True), *content, class_="filtered")


def choice(label: str, options: Mapping[str, str], **attributes: object) -> Html:
    """A field to choose one of some options, texts by value."""
    texts = (element("option", text, value=value) for value, text in options.items())
    return element("label", f"{label} ", element("select", *texts, autocomplete="off", **attributes))


def details(summary: str, *content: str) -> Html:
    """Content that is folded until the reader asks for it."""
    return element("details", element("summary", summary), *content)


def note(text: str) -> Html:
    """A remark on the content, or the reason why there is none."""
    return element("p", text, class_="note")


def as_json(data: Any) -> str:
    """JSON, indented, with letters of all languages as they are."""
    return json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False)


def embedded(text: str) -> Html:
    """JSON as data in the page, escaped so that nothing ends its element or begins a comment."""
    escaped = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}
    return element("script", Html(text.translate(escaped)), type="application/json", id="results")


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'


def figure(plotted: Any, name: str, caption: str) -> Html:
    """A figure of Matplotlib as SVG, with letters as text; `name` is unique on the page, and begins all its ids."""
    import matplotlib as mpl  # noqa: PLC0415 - a large import that evaluation does not need

    file = io.StringIO()
    # The salt stands for the random number that ids are made of; no metadata, for it has the date.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "reid_torchmetrics"}):
        plotted.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    root = ET.fromstring(_NO_XML.sub("\N{REPLACEMENT CHARACTER}", file.getvalue()))  # noqa: S314 - our own
    for each in root.iter():
        each.tag = _without_namespace(each.tag)
        each.attrib = {_without_namespace(key): _renamed(key, value, name) for key, value in each.attrib.items()}
    # A style inside would be the style of the whole page; the page has it already.
    for definitions in root.findall("defs"):
        for style in definitions.findall("style"):
            definitions.remove(style)
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-labelledby": f"{name}-caption"}
    below = element("figcaption", caption, id=f"{name}-caption")
    return element("figure", Html(ET.tostring(root, encoding="unicode")), below)


def picture(pixels: Any, alt: str, *, scale: float = 1.0) -> Html:
    """A picture of Pillow or an array [H, W, 3], as JPEG that is decoded and scaled when the reader comes near."""
    from PIL import Image as ImageModule  # noqa: PLC0415 - not every evaluation has pictures

    image = ImageModule.fromarray(pixels) if isinstance(pixels, np.ndarray) else pixels
    file = io.BytesIO()
    image.save(file, format="JPEG", quality=_QUALITY, optimize=True)
    data = f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
    width, height = round(scale * image.width), round(scale * image.height)
    return element("img", src=data, alt=alt, width=width, height=height, loading="lazy")


def _without_namespace(name: str) -> str:
    return name.rpartition("}")[2]


def _renamed(key: str, value: str, name: str) -> str:
    """The value of an attribute, with `name` before an id."""
    if key == "id":
        return f"{name}-{value}"
    if _without_namespace(key) == "href" and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    return _REFERENCE.sub(rf"url(#{name}-\1)", value)


def percent(value: float | None) -> str:
    """A share in percent, without the sign; None and NaN are undefined."""
    return UNDEFINED if value is None or math.isnan(value) else f"{100 * value:.2f}"


def form_of(name: str) -> Callable[[float], str]:
    """How values of a reported number are written: ranks, or shares in percent, without the sign."""
    return percent if parse_report(name)[0].is_share else rank


def rank(value: float) -> str:
    """A rank, or a mean or median of ranks and other counts; "never" for what is not retrieved."""
    return UNDEFINED if math.isnan(value) else in_words(value, ",.2f").removesuffix(".00")


def heading(name: str) -> str:
    """The title of a reported number and its unit."""
    return f"{title_of(name)} (%)" if parse_report(name)[0].is_share else title_of(name)
