"""Elements of a page: escaped text, tables, embedded figures and pictures, and the texts of numbers."""

from __future__ import annotations

import base64
import html
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np

from reid_torchmetrics.functional.displays import UNDEFINED
from reid_torchmetrics.functional.model_tables import Number, in_words
from reid_torchmetrics.plot import COLUMN_SIZE, new_axes

_VOID = frozenset({"img", "input", "link", "meta"})
_QUALITY = 65  # of JPEG
_LETTER_SIZE = 13  # pixels, of the letters in figures
_LEAST_SCALE = 0.8  # of a figure: its small letters are 10 pixels high
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # characters that names may have, and XML may not
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


class Html(str):
    """Markup, which is not escaped again."""

    __slots__ = ()


def element(name: str, /, *content: str, **attributes: object) -> Html:
    """Return one element; `content` is escaped unless it is `Html`.

    In the name of an attribute `_` stands for `-`, and at its end for nothing (`class_`). True is an attribute without
    a value; None and False leave it out.
    """
    attribute_text = ""
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute_text += f" {key.rstrip('_').replace('_', '-')}"
        if value is not True:
            attribute_text += f'="{html.escape(str(value))}"'
    if name in _VOID:
        return Html(f"<{name}{attribute_text}>")
    return Html(f"<{name}{attribute_text}>{join(content)}</{name}>")


def join(content: Iterable[str], between: str = "") -> Html:
    """Join elements and texts; texts are escaped."""
    return Html(between.join(part if isinstance(part, Html) else html.escape(part, quote=False) for part in content))


def table(
    caption: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    words: str = "",
    filter_by: str = "",
    ids: Mapping[str, str] = MappingProxyType({}),
) -> Html:
    """Return a table in a box that scrolls, with shadows where it does; the first column names the rows.

    Args:
        caption: of the table.
        columns: headings.
        rows: cells, as many as columns.
        words: the column of words, which are wrapped; the others hold numbers.
        filter_by: label of a filter for the beginning of the rows' names; empty for no filter.
        ids: of rows by their names, for links to them.
    """
    kinds = ["words" if column == words else None for column in columns]
    headings = [element("th", column, scope="col", class_=kind) for column, kind in zip(columns, kinds, strict=True)]
    table_rows = []
    for name, *cells in rows:
        elements = [element("th", name, scope="row")]
        for cell, kind in zip(cells, kinds[1:], strict=True):
            elements.append(element("td", cell, class_="undefined" if cell == UNDEFINED else kind))
        table_rows.append(element("tr", *elements, id=ids.get(name)))
    box = element(
        "div",
        element(
            "table",
            # A caption stays in view where the table is wider than the window, and is scrolled.
            element("caption", element("span", caption)),
            element("thead", element("tr", *headings)),
            element("tbody", join(table_rows, between="\n")),
        ),
        class_="scroll",
        role="region",
        aria_label=caption,
        tabindex="0",
    )
    if not filter_by:
        return box
    field = element("input", type="search", autocomplete="off", data_column=0)
    return filtered([element("label", f"{filter_by} ", field)], box)


def filtered(fields: Sequence[Html], *content: str) -> Html:
    """Return tables and lists under fields that filter and sort their items, by the fact at the field's `data_column`.

    Without scripts the fields would do nothing, so it is the script that shows them.
    """
    controls = join([*fields, element("output")], " ")
    return element("div", element("p", controls, hidden=True), *content, class_="filtered")


def choice(label: str, options: Mapping[str, str], **attributes: object) -> Html:
    """Return a field to choose one of some options, texts by value."""
    option_elements = [element("option", text, value=value) for value, text in options.items()]
    return element("label", f"{label} ", element("select", *option_elements, autocomplete="off", **attributes))


def details(summary: str, *content: str) -> Html:
    """Return content that is folded until the reader opens it."""
    return element("details", element("summary", summary), *content)


def note(text: str) -> Html:
    """Return a remark on the content, or the reason why there is none."""
    return element("p", text, class_="note")


def as_json(data: Any) -> str:
    """Write JSON, indented, with letters of all languages as they are."""
    return json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False)


def embedded(text: str) -> Html:
    """Return JSON as data in the page, escaped so that nothing ends its element or begins a comment."""
    escaped = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}
    return element("script", Html(text.translate(escaped)), type="application/json", id="results")


def figure(plot: Callable[..., object], name: str, caption: str, size: tuple[float, float] = COLUMN_SIZE) -> Html:
    """Embed a figure of Matplotlib as SVG, with letters as text.

    It is drawn in the size in which it is shown, so that its letters are nearly as large as those of the page. Its
    title is the beginning of the caption.

    Args:
        plot: draws into the axes `ax`.
        name: unique on the page; all ids begin with it.
        caption: more than the title says; may be empty.
        size: in inches of 72 pixels.
    """
    import matplotlib as mpl  # noqa: PLC0415 - a large import that evaluation does not need

    file = io.StringIO()
    # The salt stands for the random number that ids are made of; no metadata, for it has the date.
    with mpl.rc_context({"font.size": _LETTER_SIZE, "svg.fonttype": "none", "svg.hashsalt": "reid_torchmetrics"}):
        ax = new_axes(size)
        plotted: Any = ax.figure
        plot(ax=ax)
        title = ax.get_title()
        ax.set_title("")
        plotted.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    root = ET.fromstring(_NO_XML.sub("\N{REPLACEMENT CHARACTER}", file.getvalue()))  # noqa: S314 - our own
    for node in root.iter():
        node.tag = _without_namespace(node.tag)
        node.attrib = {_without_namespace(key): _rename_ids(key, value, name) for key, value in node.attrib.items()}
    # A style inside would be the style of the whole page; the page has it already.
    for definitions in root.findall("defs"):
        for style in definitions.findall("style"):
            definitions.remove(style)
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-labelledby": f"{name}-caption"}
    sentences = [element("b", " ".join(title.replace(r"\$", "$").split())), f". {caption}" if caption else ""]
    figcaption = element("figcaption", *sentences, id=f"{name}-caption")
    width = round(72 * size[0])
    # Where the window is narrower the figure shrinks a little, and then scrolls, so that its letters can be read.
    widths = f"width: {width}px; --least-width: {round(_LEAST_SCALE * width)}px"
    return element("figure", Html(ET.tostring(root, encoding="unicode")), figcaption, style=widths)


def picture(pixels: Any, alt: str, *, scale: float = 1.0) -> Html:
    """Embed a picture of Pillow or an array [H, W, 3] as JPEG."""
    from PIL import Image as ImageModule  # noqa: PLC0415 - not every evaluation has pictures

    image = ImageModule.fromarray(pixels) if isinstance(pixels, np.ndarray) else pixels
    file = io.BytesIO()
    image.save(file, format="JPEG", quality=_QUALITY, optimize=True)
    data = f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
    width = round(scale * image.width)
    height = round(scale * image.height)
    return element("img", src=data, alt=alt, width=width, height=height)


def _without_namespace(name: str) -> str:
    """Return the name of a tag or attribute of ElementTree without `{namespace}`."""
    return name.rpartition("}")[2]


def _rename_ids(key: str, value: str, name: str) -> str:
    """Return the value of an attribute, with `name` before an id or a reference to one."""
    if key == "id":
        return f"{name}-{value}"
    if _without_namespace(key) == "href" and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    return _REFERENCE.sub(rf"url(#{name}-\1)", value)


def percent_text(value: float | None) -> str:
    """Return a share in percent, without the sign; None and NaN are undefined."""
    return number_text(value, ".2%").removesuffix("%")


def rank_text(value: float) -> str:
    """Return a rank, or a mean or median of ranks and other counts; "never" for an infinite one: not retrieved."""
    return in_words(value, ",.2f").removesuffix(".00")


def number_text(value: float | None, form: str) -> str:
    """Return a number; None, which JSON has for NaN, is undefined."""
    return UNDEFINED if value is None else in_words(value, form)


def formatter_of(number: Number) -> Callable[[float], str]:
    """Return the function that writes the values of a number: shares in percent, or ranks."""
    return percent_text if number.is_share else rank_text
