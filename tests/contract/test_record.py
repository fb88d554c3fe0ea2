"""Frozen records: dataclasses without their cost."""

from __future__ import annotations

import copy
import pickle

import pytest

from stoker.contract.record import Record


class Point(Record):
    """Two numbers."""

    x: int
    y: int = 0
    """Documented."""


class Point3(Point):
    z: int = 9


class Place(Record):
    point: Point
    names: tuple[str, ...] = ()


def test_fields_are_given_by_name_or_by_default():
    assert (Point(x=1).x, Point(x=1).y) == (1, 0)
    assert (Point(x=1, y=2).x, Point(x=1, y=2).y) == (1, 2)


def test_fields_are_keyword_only():
    with pytest.raises(TypeError):
        Point(1, 2)


def test_a_missing_and_an_unknown_field_are_told_together():
    with pytest.raises(TypeError, match=r"Point: missing=\['x'\] unknown=\['w'\]"):
        Point(w=1)


def test_a_field_cannot_be_changed():
    point = Point(x=1)
    with pytest.raises(AttributeError, match="replace"):
        point.x = 2
    with pytest.raises(AttributeError, match="frozen"):
        point.other = 2
    assert point.x == 1


def test_a_field_cannot_be_deleted():
    point = Point(x=1)
    with pytest.raises(AttributeError):
        del point.x
    assert point.x == 1


def test_replace_makes_a_changed_copy():
    point = Point(x=1, y=2)
    assert point.replace(y=5) == Point(x=1, y=5)
    assert point == Point(x=1, y=2)
    with pytest.raises(TypeError, match="unknown"):
        point.replace(w=1)


def test_equality_asks_for_type_and_values():
    assert Point(x=1) == Point(x=1, y=0)
    assert Point(x=1) != Point(x=2)
    assert Point(x=1) != Point3(x=1)
    assert Point(x=1) != (1, 0)


def test_equal_records_are_one_key():
    assert len({Point(x=1), Point(x=1, y=0), Point(x=2)}) == 2
    assert hash(Place(point=Point(x=1))) == hash(Place(point=Point(x=1)))


def test_a_subclass_adds_its_fields():
    assert repr(Point3(x=1)) == "Point3(x=1, y=0, z=9)"


def test_records_print_themselves():
    assert repr(Place(point=Point(x=1))) == "Place(point=Point(x=1, y=0), names=())"


def test_records_can_be_copied_and_sent_to_other_processes():
    place = Place(point=Point(x=1), names=("a",))
    assert copy.deepcopy(place) == place
    assert pickle.loads(pickle.dumps(place)) == place
