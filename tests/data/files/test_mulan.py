"""The label XML of MULAN, and that it cannot be used as a weapon."""

import pytest

from pmlkit.data.files.arff import find_label_xml, read_label_xml
from pmlkit.exceptions import DataError
from refused import refused


@pytest.fixture
def xml(tmp_path):
    def xml(text):
        path = tmp_path / "tags.xml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return xml


def test_names_in_order_nested_and_with_entities(xml):
    text = """<?xml version="1.0" encoding="utf-8"?>
    <labels xmlns="http://mulan.sourceforge.net/labels">
    <label name="b"><label name="a"></label></label><!-- no --><label name="x &amp; y"/>
    </labels>"""
    assert read_label_xml(xml(text)) == ["b", "a", "x & y"]
    assert read_label_xml(xml('<m:labels xmlns:m="u"><m:label name="é"/></m:labels>')) == ["é"]


BOMB = (
    '<!DOCTYPE labels [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]><labels><label name="&b;"/></labels>'
)
OUTSIDE = '<!DOCTYPE labels SYSTEM "file:///etc/passwd"><labels><label name="a"/></labels>'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "declares a document type"),
        (OUTSIDE, "declares a document type"),
        ("<labels><label name='a'>", "not a readable XML"),
        ("", "not a readable XML"),
        (b"\xff\x00\x12garbage", "not a readable XML"),
        ("<?xml version='1.0' encoding='nonsense'?><labels/>", "not a readable XML"),
        ("<labels/>", "names no label"),
    ],
)
def test_refuses(xml, text, message):
    with pytest.raises(DataError, match=message):
        read_label_xml(xml(text))


def test_refuses_a_label_without_a_name(xml):
    with refused("without a name", line=1):
        read_label_xml(xml("<labels><label/></labels>"))


def test_absent(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_label_xml(tmp_path / "no.xml")


def test_found_by_name(tmp_path):
    (tmp_path / "tags.xml").touch()
    assert find_label_xml(tmp_path, "tags") == tmp_path / "tags.xml"
    assert find_label_xml(tmp_path, "tags-train") == tmp_path / "tags.xml"
    assert find_label_xml(tmp_path, "tags-sparse") == tmp_path / "tags.xml"
    assert find_label_xml(tmp_path, "tags-2") is None
    (tmp_path / "tags-test.xml").touch()
    assert find_label_xml(tmp_path, "tags-test") == tmp_path / "tags-test.xml"
