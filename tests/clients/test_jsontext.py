"""Splicing JSON text: what is added and cut out again leaves every byte as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.clients import jsontext

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
TEXTS = st.builds(
    lambda value, indent, crlf, ascii_, ends, bom: (
        ("\ufeff" if bom else "")
        + json.dumps(value, indent=indent, ensure_ascii=ascii_).replace("\n", "\r\n" if crlf else "\n")
        + ends
    ),
    VALUES,
    st.sampled_from([None, 0, 2, 4, "\t"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["", "\n", "\r\n", "  \n\n"]),
    st.booleans(),
)


def containers(node: jsontext.Node) -> list[jsontext.Node]:
    inner = [value for _, _, value in node.members] + node.items
    own = [node] if node.kind in ("object", "array") else []
    return own + [each for value in inner for each in containers(value)]


def same(text: str) -> Any:
    return json.loads(text.removeprefix("\ufeff"))


@settings(max_examples=400, deadline=None)
@given(text=TEXTS, new=VALUES, data=st.data())
def test_adding_and_cutting_out_again_changes_nothing(text: str, new: Any, data: st.DataObject) -> None:
    places = containers(jsontext.parse(text))
    if not places:
        return
    number = data.draw(st.integers(0, len(places) - 1))
    place = places[number]
    key = "a new key" if place.kind == "object" else None
    if key and any(name == key for name, _, _ in place.members):
        return
    longer = jsontext.add(text, place, new, key)
    assert same(longer) != same(text)
    again = containers(jsontext.parse(longer))[number]
    assert len(again.spans()) == len(place.spans()) + 1
    assert jsontext.cut(longer, again, len(place.spans())) == text


@settings(max_examples=300, deadline=None)
@given(text=TEXTS, data=st.data())
def test_cutting_one_out_leaves_the_others(text: str, data: st.DataObject) -> None:
    places = [place for place in containers(jsontext.parse(text)) if place.kind == "array" and place.items]
    if not places:
        return
    place = data.draw(st.sampled_from(places))
    index = data.draw(st.integers(0, len(place.items) - 1))
    rest = jsontext.value(text, place)
    del rest[index]
    shorter = jsontext.cut(text, place, index)
    node = next(n for n in containers(jsontext.parse(shorter)) if n.start == place.start)
    assert jsontext.value(shorter, node) == rest
    assert shorter[: place.start] == text[: place.start]
    assert shorter.endswith(text[place.end :])


@pytest.mark.parametrize("text", ["", " ", "{", '{"a": }', "// comment\n{}", '{"a": 1,}', "[1] 2", "\ufeff"])
def test_what_is_no_json(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        jsontext.parse(text)


def test_a_key_that_is_there_twice() -> None:
    root = jsontext.parse('{"a": 1, "a": 2, "b": {"c": []}}')
    with pytest.raises(ValueError, match="twice"):
        jsontext.find(root, ["a"])
    assert jsontext.find(root, ["b", "c"]) is not None
    assert jsontext.find(root, ["b", "x", "y"]) is None
    with pytest.raises(ValueError, match="no object"):
        jsontext.find(root, ["b", "c", "d"])


@pytest.mark.parametrize(
    ("text", "unit"), [("{}", "  "), ('{\n    "a": 1\n}', "    "), ('{\r\n\t"a": 1}', "\t"), ('{"a": [\n   1]}', "   ")]
)
def test_the_texts_own_indentation(text: str, unit: str) -> None:
    assert jsontext.indent_unit(text) == unit


def test_how_it_looks() -> None:
    text = '{\n    "a": 1\n}\n'
    assert jsontext.add(text, jsontext.parse(text), {"x": [1]}, "b") == (
        '{\n    "a": 1,\n    "b": {\n        "x": [\n            1\n        ]\n    }\n}\n'
    )
