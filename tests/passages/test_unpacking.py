"""Archives of strangers: bombs, links, devices, and names that leave the folder."""

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile

import pytest

from kshot.core.errors import DataError
from kshot.passages import unpacking
from kshot.passages.unpacking import unpack

OUTSIDE = ["../evil", "/tmp/evil", "a/../../evil", "..\\evil", "C:\\evil", "a\\b", "sub/../../../evil"]


@pytest.fixture
def unpacked(tmp_path):
    """Unpack the bytes of an archive; return the files by name. Nothing may appear beside the folder."""

    def unpacked(raw, note=lambda _: None):
        file, folder = tmp_path / "body", tmp_path / "files"
        file.write_bytes(raw)
        folder.mkdir()
        try:
            assert unpack(file, folder, "http://host/a.zip", note)
        finally:
            assert {path.name for path in tmp_path.iterdir()} <= {"body", "body.tar", "files"}
            assert not any(path.is_symlink() for path in folder.rglob("*"))
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    return unpacked


def zipped(members, method=zipfile.ZIP_DEFLATED):
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", method) as archive:
        for name, body in members:
            info = zipfile.ZipInfo("x")
            info.filename, info.compress_type = name, method  # the constructor would repair the name
            archive.writestr(info, body)
    return raw.getvalue()


def tarred(*members):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, body, more in members:
            info = tarfile.TarInfo(name)
            info.size = len(body)
            for key, value in more.items():
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO(body))
    return raw.getvalue()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_honest_tar_files(unpacked, pack):
    raw = tarred(("a/b.txt", b"text", {}), ("c", b"more", {}))
    assert unpacked(pack(raw)) == {"a/b.txt": b"text", "c": b"more"}


def test_honest_zip_files(unpacked):
    assert unpacked(zipped([("a/b.txt", b"text"), ("d/", b""), ("c", b"x" * 9999)])) == {
        "a/b.txt": b"text",
        "c": b"x" * 9999,
    }


def test_what_is_no_archive_is_left_alone(tmp_path):
    for raw in (b"", b"text", b"{}", b"%PDF-1.7", gzip.compress(b'{"id": 1}')):
        (tmp_path / "body").write_bytes(raw)
        assert not unpack(tmp_path / "body", tmp_path, "url")
        (tmp_path / "body.tar").unlink(missing_ok=True)


@pytest.mark.parametrize("name", OUTSIDE)
def test_names_that_leave_the_folder(unpacked, name):
    with pytest.raises(DataError, match="would write outside its folder"):
        unpacked(zipped([(name, b"x")]))


@pytest.mark.parametrize("name", OUTSIDE)
def test_names_that_leave_the_folder_of_a_tar_file(unpacked, name):
    with pytest.raises(DataError, match="would write outside its folder"):
        unpacked(tarred((name, b"x", {})))


@pytest.mark.parametrize("name", ["a" * 300, "/".join("abcdefghijklmnopqrstuvwxyz" * 2)])
def test_names_that_no_file_can_have(unpacked, name):
    with pytest.raises(DataError, match="a name is longer than 250 bytes, or deeper than 32 folders"):
        unpacked(zipped([(name, b"x")]))


def test_links_become_copies_of_what_they_name(unpacked):
    links = {"s": tarfile.SYMTYPE, "h": tarfile.LNKTYPE}
    raw = tarred(("a", b"text", {}), *((name, b"", {"type": kind, "linkname": "a"}) for name, kind in links.items()))
    assert unpacked(raw) == {"a": b"text", "s": b"text", "h": b"text"}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
@pytest.mark.parametrize("target", ["/etc/passwd", "../../etc/passwd", "a/../../b", "C:\\\\x"])
def test_links_to_elsewhere_are_refused(unpacked, kind, target):
    with pytest.raises(DataError, match=r"is a link to .* which lies outside the archive"):
        unpacked(tarred(("link", b"", {"type": kind, "linkname": target})))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
@pytest.mark.parametrize("target", ["nothing", "link", "d", "other", ".", "d/"])
def test_links_that_name_no_file_are_left_out_with_a_note(unpacked, kind, target):
    notes = []
    links = [(name, b"", {"type": kind, "linkname": to}) for name, to in (("link", target), ("other", "link"))]
    folder = ("d", b"", {"type": tarfile.DIRTYPE})
    assert unpacked(tarred(folder, ("d/a", b"text", {}), *links), notes.append) == {"d/a": b"text"}
    assert notes == ["2 links are left out, which name no file of the archive: 'link', 'other'"]


def test_links_to_what_comes_later_and_through_links(unpacked):
    def link(name, to, kind=tarfile.SYMTYPE):
        return name, b"", {"type": kind, "linkname": to}

    raw = tarred(
        link("s/1", "../x"), link("2", "s/1"), ("x", b"old", {}), link("h", "x", tarfile.LNKTYPE), ("x", b"new", {})
    )
    assert unpacked(raw) == {"s/1": b"new", "2": b"new", "x": b"new", "h": b"old"}


def test_no_link_makes_the_library_search_all_members(unpacked, monkeypatch):
    """A hundred thousand links, each searched among a hundred thousand members, would take hours."""
    links = [(f"l{number}", b"", {"type": tarfile.SYMTYPE, "linkname": "x"}) for number in range(3)]
    raw = tarred(*links, ("x", b"1", {}))
    monkeypatch.delattr(tarfile.TarFile, "_getmember")
    assert unpacked(raw) == {"x": b"1", "l0": b"1", "l1": b"1", "l2": b"1"}


def test_a_file_is_not_written_through_a_link(unpacked, tmp_path):
    through = tarred(("d", b"", {"type": tarfile.SYMTYPE, "linkname": str(tmp_path)}), ("d/x", b"evil", {}))
    with pytest.raises(DataError, match="lies outside the archive"):
        unpacked(through)
    assert not (tmp_path / "x").exists()


def test_a_file_below_a_link_to_a_folder_stays_where_its_name_says(unpacked):
    link = ("d", b"", {"type": tarfile.SYMTYPE, "linkname": "e"})
    raw = tarred(("e", b"", {"type": tarfile.DIRTYPE}), link, ("d/x", b"1", {}))
    assert unpacked(raw) == {"d/x": b"1"}


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_are_refused(unpacked, kind):
    with pytest.raises(DataError, match="x is a device or a pipe"):
        unpacked(tarred(("x", b"", {"type": kind})))


@pytest.mark.parametrize("second", ["x", "./x", "x/"])
def test_the_last_of_two_members_of_one_name_counts(unpacked, second):
    assert unpacked(tarred(("x", b"1", {}), (second.rstrip("/"), b"22", {}), ("y", b"3", {}))) == {
        "x": b"22",
        "y": b"3",
    }


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_the_last_of_two_members_of_a_zip_counts(unpacked):
    assert unpacked(zipped([("x", b"111"), ("x", b"2")])) == {"x": b"2"}


def test_a_file_and_a_folder_of_one_name_are_refused(unpacked):
    with pytest.raises(DataError, match="cannot be unpacked"):
        unpacked(tarred(("x", b"1", {}), ("x/y", b"2", {})))


def test_a_bomb_is_stopped_by_its_ratio(unpacked):
    with pytest.raises(DataError, match="the ratio of unpacked to packed size is above the limit of 200"):
        unpacked(gzip.compress(bytes(80 << 20)))


@pytest.mark.parametrize("pack", ["zip", "tar", "gzip", "bz2", "xz"])
def test_sizes_are_counted_while_they_are_unpacked(unpacked, monkeypatch, pack):
    monkeypatch.setattr(unpacking, "MAX_BYTES", 100_000)
    body = bytes(200_000)
    packs = {"tar": bytes, "gzip": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
    raw = zipped([("x", body)]) if pack == "zip" else packs[pack](tarred(("x", body, {})))
    with pytest.raises(DataError, match=r"the unpacked size is above the limit of .* Unpack it yourself"):
        unpacked(raw)


def test_a_zip_that_lies_about_its_sizes(unpacked, monkeypatch):
    monkeypatch.setattr(unpacking, "MAX_BYTES", 100_000)
    raw = zipped([("x", bytes(200_000))]).replace(struct.pack("<L", 200_000), struct.pack("<L", 5))
    with pytest.raises(DataError, match=r"cannot be unpacked|above the limit"):
        unpacked(raw)


def test_the_number_of_files_is_limited(unpacked, monkeypatch, tmp_path):
    monkeypatch.setattr(unpacking, "MAX_FILES", 3)
    members = [(str(number), b"") for number in range(5)]
    with pytest.raises(DataError, match="the number of files is above the limit of 3"):
        unpacked(zipped(members))
    (tmp_path / "files").rmdir()
    with pytest.raises(DataError, match="the number of files is above the limit of 3"):
        unpacked(tarred(*((*member, {}) for member in members)))


def test_a_header_cannot_fill_the_memory(unpacked, monkeypatch):
    monkeypatch.setattr(unpacking, "_MAX_HEADER_BYTES", 1000)
    raw = tarred(("x", b"", {"pax_headers": {"comment": "x" * 5000}}))
    with pytest.raises(DataError, match="a header is above the limit"):
        unpacked(raw)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_cannot_be_limited_is_refused(unpacked, method):
    with pytest.raises(DataError, match="compressed in a way that cannot be limited"):
        unpacked(zipped([("x", bytes(100_000))], method))


def test_damaged_archives(unpacked, tmp_path):
    whole = zipped([("x", bytes(range(256)) * 40)])
    for raw in (gzip.compress(tarred(("x", b"y" * 5000, {})))[:-30], whole[:40] + b"!!!!!" + whole[45:]):
        with pytest.raises(DataError, match="cannot be unpacked"):
            unpacked(raw)
        for left in (tmp_path / "files").iterdir():
            left.unlink()
        (tmp_path / "files").rmdir()
        (tmp_path / "body.tar").unlink(missing_ok=True)
