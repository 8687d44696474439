"""Files below one root: whole or not at all, wherever the root is."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from headwater.model.errors import WarehouseError
from headwater.storage import Storage
from warehouse.s3_server import S3Server

ODD = "views/ü %41 a+b/x.json"


def filled(storage: Storage, folder: str) -> list[str]:
    """The names below a folder that hold something: this S3 server, unlike S3, names an emptied folder for a while."""
    paths = {name: f"{folder}/{name}" for name in storage.names(folder)}
    return [name for name, path in paths.items() if storage.get(path) is not None or filled(storage, path)]


def test_what_was_put_is_there(storage: Storage) -> None:
    storage.put("a/b", b"one")
    storage.put("a/b", b"two")
    assert storage.get("a/b") == b"two"
    assert pickle.loads(pickle.dumps(storage)).get("a/b") == b"two"


def test_nothing_is_none(storage: Storage) -> None:
    assert storage.get("nothing/here") is None
    assert storage.names("nothing") == []
    storage.delete("nothing/here")
    storage.delete_folder("nothing")


def test_a_put_is_all_or_nothing(storage: Storage) -> None:
    storage.put("a/b", b"one")
    with pytest.raises(TypeError):
        storage.put("a/b", "no bytes")  # type: ignore[arg-type]
    assert storage.get("a/b") == b"one"
    assert storage.names("a") == ["b"]


def test_put_new_never_replaces(storage: Storage) -> None:
    assert storage.put_new("a/b", b"one")
    assert not storage.put_new("a/b", b"two")
    assert storage.get("a/b") == b"one"
    assert storage.names("a") == ["b"]


def test_names_are_those_directly_below(storage: Storage) -> None:
    for path in ("a/z", "a/b/c", "a/b/d", "a/e/f/g", "ab/c"):
        storage.put(path, b"")
    assert storage.names("a") == ["b", "e", "z"]
    assert storage.names("a/b") == ["c", "d"]
    assert storage.names("") == ["a", "ab"]


def test_many_names(storage: Storage) -> None:
    """More than one page of an object store's answer would be 1,000; a few are enough to see them sorted."""
    for number in range(30):
        storage.put(f"many/{number:03d}", b"")
    assert storage.names("many") == [f"{number:03d}" for number in range(30)]


def test_deleting_takes_what_was_named_and_nothing_else(storage: Storage) -> None:
    for path in ("a/b/c", "a/b/d", "a/bc", "a/z"):
        storage.put(path, b"x")
    storage.delete("a/z")
    storage.delete_folder("a/b")
    assert filled(storage, "a") == ["bc"]
    storage.delete("a/bc")
    assert filled(storage, "a") == []


def test_odd_names(storage: Storage) -> None:
    storage.put(ODD, b"odd")
    assert storage.get(ODD) == b"odd"
    assert storage.names("views") == ["ü %41 a+b"]
    storage.delete_folder("views/ü %41 a+b")
    assert filled(storage, "views") == []


def test_arrow_round_trip(storage: Storage) -> None:
    table = pa.table({"x": [1, 2, None], "text": ["a", "ü", None]})
    storage.write_arrow("journal/1/rows.arrow", table)
    assert storage.read_arrow("journal/1/rows.arrow").equals(table)
    with pytest.raises(FileNotFoundError):
        storage.read_arrow("journal/1/nothing.arrow")


def test_a_file_written_by_pyarrow_lies_where_the_storage_says(storage: Storage) -> None:
    storage.put(ODD, b"odd")
    with storage.filesystem.open_input_stream(storage.path(ODD)) as stream:
        assert stream.read() == b"odd"


def test_a_bucket_that_is_not_there(in_s3: str) -> None:
    with pytest.raises(WarehouseError, match="no bucket") as refused:
        Storage("s3://another-bucket/place").put("a", b"")
    assert refused.value.fix


def test_a_wrong_key_is_said_and_not_shown(in_s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "some-wrong-secret")
    with pytest.raises(WarehouseError, match="refuses access") as refused:
        Storage(in_s3).put("a", b"")
    assert "some-wrong-secret" not in str(refused.value)


def test_a_server_that_does_not_answer(in_s3: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.storage.object_store.RETRIES", 0)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(WarehouseError, match=r"cannot reach .* at http://127.0.0.1:9"):
        Storage(in_s3).get("a")
