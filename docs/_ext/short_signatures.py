"""Signatures that can be read: unions of types have one name, and options that `Args` lists together are one line.

`help` shows a signature in full. On the site a type such as `Labels` links to the table that explains it, and the names
of options that a signature leaves out follow the text of `options` in the docstring.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

from reference_pages import is_record, only_returned
from sphinx.util.inspect import signature as read_signature
from sphinx.util.inspect import stringify_signature
from sphinx.util.nodes import make_refnode

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

_TENSOR = r"(?:(?:~torch\.|\b)Tensor|(?:~jaxtyping\.)?\w+\[Tensor, '[^']*'\])"
_FIRST = rf"{_TENSOR}(?: \| {_TENSOR})* \| ndarray \| "
_SEQUENCE = r"~collections\.abc\.Sequence"
_SHORT = {
    r"~?(?:[\w.]+\.)?TableColumn \| ": "",
    rf"{_SEQUENCE}\[~typing\.SupportsIndex \| None\] \| {_SEQUENCE}\[str \| None\]": "Sequence[str]",
    r"~?(numpy\.)?ndarray\[tuple\[[^]]*\], ~?(numpy\.)?dtype\[[^]]*\]\]": "ndarray",
    r"~collections\.abc\.Sequence\[(~typing\.SupportsIndex|int)\]": "Ints",
    r"~collections\.abc\.Sequence\[(str|float|~typing\.Any)\]": r"Sequence[\1]",
    r"Sequence\[~typing\.Any\]": "Sequence[Any]",
    r"_checks\.Array": "ndarray",
    r"_checks\.IntegersOrNames": "ndarray | Ints | Sequence[str]",
    r"_checks\.Integers": "ndarray | Ints",
    r"_checks\.SeveralLabels": "SeveralLabels",
    r"~collections\.abc\.Sequence\[Ints\] \| ~collections\.abc\.Sequence\[ndarray\] \| "
    r"~collections\.abc\.Sequence\[~torch\.Tensor\]": "SeveralLabels",
    rf"{_FIRST}Ints \| Sequence\[str\](?: \| SeveralLabels)?": "Labels",
    rf"{_FIRST}Ints": "Integers",
    rf"{_FIRST}Sequence\[float\]": "Floats",
    rf"{_FIRST}Sequence\[Any\](?= \| None = None, query_identities|, gallery:)": "Embeddings",
    r"~typing\.Literal\['cosine'[^]]*\] \| ~collections\.abc\.Callable\[\[[^]]*\], ~torch\.Tensor\]": "Similarity",
    r"(~typing\.Literal\[[^]]*\]) \| ~collections\.abc\.Sequence\[\1\]": r"\1 | Sequence[str]",
    r"\bInts\b": "Sequence[int]",
    r"\bSeveralLabels\b": "Sequence[Sequence[int]]",
    r"~?(typing\.)?Literal\[[^]]{200,}\]": "str",  # such as the names of the protocols
}
"""types in signatures by their pattern, as they are read; they are replaced in this order"""
EXPLAINED = {"Embeddings", "Floats", "Integers", "Labels", "Similarity"}
"""types that the table on the first page of the reference explains"""
_MANY = 20
"""fields of a record that are a list rather than a signature"""
_PAGE = "reference/index"
_ANCHOR = "types-in-signatures"
_ARGS = re.compile(r"^Args:\n((?: .*\n|\n)*)", re.MULTILINE)
_ITEM = re.compile(r"^    (\w+):", re.MULTILINE)


def left_out(thing: Any) -> tuple[str, list[str]]:
    """The last name that `Args` lists and the signature does not have, and the names of the options that it is for."""
    section = _ARGS.search(f"{inspect.getdoc(thing)}\n")
    if section is None:
        return "", []
    listed = _ITEM.findall(section[1])
    parameters = inspect.signature(thing).parameters
    if listed[-1] in parameters:
        return "", []
    keywords = [name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY]
    return listed[-1], [name for name in keywords if name not in listed]


def _fields_with_defaults(thing: Any) -> list[str]:
    """The optional fields of a record that has many; each of them is described below the signature."""
    parameters = inspect.signature(thing).parameters.values()
    if not is_record(thing) or len(parameters) <= _MANY:
        return []
    return [parameter.name for parameter in parameters if parameter.default is not parameter.empty]


def _sign(app: Sphinx, what: str, name: str, thing: Any, options: Any, *signature: Any) -> tuple[str, Any] | None:
    """Leave out how a class is made that users only receive, and options that are listed elsewhere."""
    if name in only_returned():
        return "", None
    arguments, returned = signature
    if arguments is None:
        return None
    if what in {"class", "function"}:
        rest, names = left_out(thing)
        fields = _fields_with_defaults(thing)
        if names or fields:
            arguments = _without(thing, names or fields, rest or "fields")
    return shortened(arguments), returned


def _without(thing: Any, names: list[str], rest: str) -> str:
    """The arguments with `**rest` in the place of those that have the names."""
    is_class = inspect.isclass(thing)
    full = read_signature(thing.__init__ if is_class else thing, bound_method=is_class)
    kept = [parameter for parameter in full.parameters.values() if parameter.name not in names]
    kept.append(inspect.Parameter(rest, inspect.Parameter.VAR_KEYWORD))
    return stringify_signature(full.replace(parameters=kept), show_return_annotation=False, unqualified_typehints=True)


def shortened(arguments: str) -> str:
    """A signature with short names of types."""
    for long, short in _SHORT.items():
        arguments = re.sub(long, short, arguments)
    return arguments


def _list_names(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Add the names of options to the text that describes them."""
    if what not in {"class", "function"}:
        return
    options_name, names = left_out(thing)
    if not names:
        return
    end = next(number for number, line in enumerate(lines) if line.startswith(f"    {options_name}:")) + 1
    while end < len(lines) and lines[end].startswith("        "):
        end += 1
    listed = ", ".join(f"``{option}``" for option in names)
    lines.insert(end, f"        The names are {listed}.")


def _explain(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.reference | None:
    """Link a short name of a type to the table."""
    if node.get("reftarget") not in EXPLAINED:
        return None
    return make_refnode(app.builder, node["refdoc"], _PAGE, _ANCHOR, content)


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to what autodoc finds, and to names of types that are no classes."""
    app.connect("autodoc-process-docstring", _list_names, priority=50)  # before napoleon makes the sections
    app.connect("autodoc-process-signature", _sign)
    app.connect("missing-reference", _explain, priority=800)  # before it is taken for a private name
    return {"parallel_read_safe": True, "parallel_write_safe": True}
