"""``work_dir`` of a config."""

import pytest

from kshot.configs.loader import work_folder


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("work_dir = './outputs/first'\n", "outputs/first"),
        ("work_dir = 'a/../b'\n", "b"),
        ("work_dir = '/etc/kshot'\n", None),
        ("work_dir = '../elsewhere'\n", None),
        ("work_dir = '.'\n", None),
        ("work_dir = None\n", None),
        ("x = 1\n", None),
        ("work_dir = 1 /\n", None),
    ],
)
def test_only_a_folder_below_this_one_counts(tmp_path, monkeypatch, text, folder):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "eval.py").write_text(text)
    assert work_folder(tmp_path / "eval.py", None) == folder


def test_a_link_does_not_lead_out(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here" / "out").symlink_to(tmp_path / "there")
    (tmp_path / "here" / "eval.py").write_text("work_dir = 'out/x'\n")
    assert work_folder(tmp_path / "here" / "eval.py", None) is None
