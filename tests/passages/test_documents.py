"""Documents: every format, every encoding, and one clear error for what cannot be read."""

import codecs
import io
import json
from pathlib import Path

import pytest

from kshot.core import text_files
from kshot.core.errors import DataError, MissingExtra
from kshot.passages.documents import Document, _joined_lines, read_document, read_documents
from tests.fuzz.harness import watched

CHAPTERS = Path(__file__).parents[2].parent / "shared" / "data" / "fastbook" / "chapters"


def notebook(*cells):
    return json.dumps({"cells": [{"cell_type": kind, "source": source} for kind, source in cells]})


def pdf(*pages):
    """A PDF with one line of text a page."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids = []
    for line in pages:
        stream = f"BT /F1 12 Tf 72 720 Td ({line}) Tj ET" if line else ""
        number = len(objects) + 1
        kids.append(f"{number} 0 R")
        font = "<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources {font} /Contents {number + 1} 0 R >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    body, offsets = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, start=1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{text}\nendobj\n".encode()
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    end = (
        f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\n"
    )
    return body + f"{end}startxref\n{len(body)}\n%%EOF\n".encode()


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# ---- the published chapters ----


@pytest.mark.skipif(not CHAPTERS.is_dir(), reason=f"the reference material is not at {CHAPTERS}")
def test_notebooks_give_the_published_text():
    total = 0
    for file in sorted(CHAPTERS.glob("*.ipynb")):
        made = read_document(file, until="## Questionnaire")
        assert made.text == read_document(CHAPTERS / f"chapter_{int(file.name[:2])}.txt").text
        assert made.format == "notebook"
        total += len(made.text)
    assert total == 503_769


# ---- formats ----


def test_notebook_cells(tmp_path):
    cells = [
        ("markdown", ["# A\n", "text"]),
        ("raw", "left out"),
        ("code", "x = 1"),
        ("markdown", "## Stop\nmore"),
        ("code", "y"),
    ]
    file = write(tmp_path / "book.ipynb", notebook(*cells))
    assert read_document(file) == Document("book", "# A\ntext\nx = 1\n## Stop\nmore\ny\n", str(file), "notebook")
    assert read_document(file, until="## Stop").text == "# A\ntext\nx = 1\n"
    notes = []
    assert read_document(file, until="# Stop", note=notes.append).text.endswith("y\n")
    assert notes == [f"{file}: no cell has '# Stop', so it is read to its end"]


@pytest.mark.parametrize("suffix", [".md", ".markdown", ".txt", ".rst", ".TXT"])
def test_text_is_kept_as_it_is(tmp_path, suffix):
    text = "a\r\nb\rc\n\n \t# d\f é\n"
    assert read_document(write(tmp_path / f"a.b{suffix}", text)).text == text
    assert read_document(tmp_path / f"a.b{suffix}").name == "a.b"


def test_html_shows_what_a_reader_sees(tmp_path):
    page = """<!doctype html><html><head><title>T</title><style>p {}</style></head><body><!-- no -->
      <script>var x = "<p>no</p>"</script><h1>Big <em>title</em></h1><h2></h2>
      <p>Some  <b>bold</b>,
      text&nbsp;&amp; more<br>new line</p><p hidden>no</p><div style="display: none">no</div>
      <ul><li>one</li><li>two</li></ul>
      <table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>
      <pre>
  x = 1
      y</pre><h3><div>Sub</div></h3>end</body></html>"""
    made = read_document(write(tmp_path / "page.html", page)).text
    expected = (
        "# Big title\n\nSome bold, text & more\nnew line\n\none\ntwo\n\na b\nc\n\n  x = 1\n      y\n\n### Sub\n\nend\n"
    )
    assert made == expected


def test_html_of_any_depth(tmp_path):
    file = write(tmp_path / "deep.htm", "<div>" * 5000 + "deep" + "</div>" * 5000 + "after")
    assert read_document(file).text == "deep\nafter\n"
    assert read_document(write(tmp_path / "name.html", "readme.txt")).text == "readme.txt\n"


def test_pdf_pages(tmp_path):
    notes = []
    made = read_document(write(tmp_path / "a.pdf", pdf("First page.", "", "Third.")), note=notes.append)
    assert made.text == "First page.\f\fThird."
    assert notes == [f"{tmp_path}/a.pdf: 1 of its 3 pages have no text (scanned pages need OCR first)"]


def test_pdf_without_text_is_noted(tmp_path):
    notes = []
    assert not read_document(write(tmp_path / "scan.pdf", pdf("")), note=notes.append).text.strip()
    assert any("OCR" in note for note in notes)
    assert any("it has no text" in note for note in notes)


@pytest.mark.parametrize("password", ["secret", ""])
def test_pdf_that_is_encrypted(tmp_path, password):
    pypdf = pytest.importorskip("pypdf")
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf("Hidden.")))
    writer.encrypt(password, owner_password="owner", algorithm="RC4-128")
    file = tmp_path / "locked.pdf"
    writer.write(file)
    if not password:  # anyone may read it
        assert read_document(file).text == "Hidden."
        return
    with pytest.raises(DataError, match="it is encrypted"):
        read_document(file)


@pytest.mark.parametrize("content", [b"", b"not a pdf", b"%PDF-1.4\n%%EOF", pdf("x")[:200]])
def test_pdf_that_is_broken(tmp_path, content):
    with pytest.raises(DataError, match="this PDF cannot be read"):
        read_document(write(tmp_path / "bad.pdf", content))


@pytest.mark.parametrize(
    ("file", "module", "package"),
    [("a.pdf", "pypdf", "pypdf"), ("a.html", "bs4", "beautifulsoup4"), ("a.html", "lxml", "lxml")],
)
def test_a_missing_package_is_named(tmp_path, monkeypatch, file, module, package):
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(MissingExtra, match=f"needs the package '{package}'"):
        read_document(write(tmp_path / file, "x"))


# ---- encodings ----


@pytest.mark.parametrize(
    "raw",
    [
        "héé".encode(),
        "héé".encode("utf-8-sig"),
        "héé".encode("utf-16"),
        codecs.BOM_UTF16_BE + "héé".encode("utf-16-be"),
        "héé".encode("utf-32"),
    ],
)
def test_marked_encodings(tmp_path, raw):
    assert read_document(write(tmp_path / "a.txt", raw)).text == "héé"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"abc\xe9def", "it is not UTF-8 text: byte 3 (0xe9)"),
        (codecs.BOM_UTF8 + b"ab\xff", "it is not UTF-8 text: byte 5 (0xff)"),
        (codecs.BOM_UTF16_LE + b"a\x00b", "it is not UTF-16 text: byte 4"),
        (b"ab\x00c", "it is not text: byte 2 is NUL"),
        (codecs.BOM_UTF16_LE + b"a\x00\x00\x00", "it is not text: byte 4 is NUL"),
        (codecs.BOM_UTF8 + b"ab\x00", "it is not text: byte 5 is NUL"),
    ],
)
@pytest.mark.parametrize("name", ["a.txt", "a.html", "a.ipynb"])
def test_what_is_not_text(tmp_path, raw, message, name):
    with pytest.raises(DataError) as caught:
        read_document(write(tmp_path / name, raw))
    assert message in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)
    assert "iconv" in str(caught.value)


# ---- what cannot be read ----


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"cells": [', "book.ipynb:1: this is not JSON"),
        ("[1]", "this notebook has no cells"),
        ('{"worksheets": [{"cells": []}]}', "jupyter nbconvert"),
        ('{"cells": {}}', "this notebook has no cells"),
        ('{"cells": ["x"]}', "cell 0: a cell must be an object whose source is text"),
        ('{"cells": [{"source": [1]}]}', "cell 0: a cell must be"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_broken_notebooks(tmp_path, content, message):
    with pytest.raises(DataError) as caught:
        read_document(write(tmp_path / "book.ipynb", content))
    assert message in str(caught.value)


def test_paths_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="there is no such file"):
        read_document(tmp_path / "none.txt")
    with pytest.raises(DataError, match="this is not a file"):
        read_document(tmp_path)
    with pytest.raises(DataError, match=r"files of type '\.docx' cannot be read"):
        read_document(write(tmp_path / "a.docx", "x"))
    with pytest.raises(DataError, match="no such file or folder"):
        read_documents(tmp_path / "none")
    with pytest.raises(DataError, match="no documents are given"):
        read_documents([])
    with pytest.raises(DataError, match="no document is in this folder"):
        read_documents(tmp_path)

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(text_files, "regular_file", refuse)
    with pytest.raises(DataError, match="the file cannot be read: Permission denied"):
        read_document(write(tmp_path / "a.txt", "x"))


def test_a_character_that_ends_a_text_elsewhere_is_replaced(tmp_path):
    notes = []
    book = write(tmp_path / "a.ipynb", json.dumps({"cells": [{"cell_type": "markdown", "source": "one\0two"}]}))
    assert read_document(book, note=notes.append).text.strip() == "one\ufffdtwo"
    assert notes == [f"{book}: its characters NUL are replaced by U+FFFD"]


# ---- folders ----


def test_a_folder_in_natural_order(tmp_path):
    for name in (
        "chapter_10.txt",
        "chapter_2.md",
        "part_2/a.txt",
        "part_10/b.txt",
        ".hidden.txt",
        ".git/c.txt",
        "data.csv",
        "LICENSE",
    ):
        write(tmp_path / name, name)
    (tmp_path / "part_2" / "loop").symlink_to(tmp_path)
    notes = []
    names = [document.name for document in read_documents(tmp_path, note=notes.append)]
    assert names == ["chapter_2", "chapter_10", "a", "b"]
    assert sorted(notes) == [
        f"{tmp_path}/LICENSE: left out, files of type '' cannot be read",
        f"{tmp_path}/data.csv: left out, files of type '.csv' cannot be read",
    ]


def test_files_and_lists_keep_their_order(tmp_path):
    b, a = write(tmp_path / "b.txt", "b"), write(tmp_path / "sub" / "a.txt", "a")
    assert [d.name for d in read_documents(str(b))] == ["b"]
    assert [d.name for d in read_documents([b, str(a)])] == ["b", "a"]
    assert [d.name for d in read_documents([a.parent, b])] == ["a", "b"]


def test_empty_documents_are_noted(tmp_path):
    notes = []
    (made,) = read_documents(write(tmp_path / "a.txt", " \n"), note=notes.append)
    assert made.text == " \n"
    assert notes == [f"{tmp_path}/a.txt: it has no text"]


def test_documents_of_one_name(tmp_path):
    for name, text in {"one/intro.md": "A", "two/intro.md": "B", "three/intro.txt": "A", "other.txt": "C"}.items():
        write(tmp_path / name, text)
    notes = []
    made = read_documents(tmp_path, note=notes.append)
    assert [(d.name, d.text) for d in made] == [("one/intro.md", "A"), ("other", "C"), ("two/intro.md", "B")]
    assert notes == [f"{tmp_path}/three/intro.txt: left out, it has the name and text of {tmp_path}/one/intro.md"]
    file = tmp_path / "other.txt"
    assert len(read_documents([file, file])) == 1


@watched
def test_a_page_of_blanks_is_joined_in_linear_time():
    """From each blank the next line was once searched for: a page of blanks took hours."""
    assert _joined_lines("x" + " " * 500_000 + "y") == "x" + " " * 500_000 + "y"
    assert _joined_lines("x" + " \n" * 500_000 + "y").count("\n") >= 499_999
