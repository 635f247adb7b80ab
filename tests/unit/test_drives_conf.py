# SPDX-License-Identifier: MIT
"""drives.conf: a saved file loads unchanged, and errors name the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from linnapp.commands._options import conf_option
from linnapp.drive import drives_conf
from linnapp.drive.drives_conf import (
    DEFAULT_CONF,
    ArrayEntry,
    DriveEntry,
    DrivesConf,
    load_conf,
    parse,
)
from linnapp.errors import ConfWarning, LinnappError

IDS = [f"/dev/disk/by-id/wwn-0x500{k}" for k in range(9)]
ARRAY = "/dev/disk/by-id/md-uuid-1:2:3:4"
CONF = DrivesConf(
    {
        IDS[0]: DriveEntry("observe", Path("/m/a.linnos"), ARRAY),
        IDS[1]: DriveEntry("enforce", Path("/m/with a space.linnos")),
        IDS[2]: DriveEntry("off"),
        "/dev/vda": DriveEntry("off", identity={"serial": "S 1", "sectors": "2048"}),
    },
    {
        ARRAY: ArrayEntry(True),
        "/dev/md1": ArrayEntry(False, {"uuid": "1:2:3:4"}),
        "/dev/md/my array [x]": ArrayEntry(True),
    },
)


def test_saved_configuration_loads_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "etc" / "linnapp" / "drives.conf"
    assert load_conf(path).is_empty
    drives_conf.save_conf(path, CONF)
    assert load_conf(path) == CONF
    assert list(path.parent.iterdir()) == [path]
    # The file explains every setting.
    for word in ("model = ", "mode = ", "array = ", "linnos = ", "wwid, ", "uuid = "):
        assert f"#   {word}" in path.read_text()
    drives_conf.save_conf(path, DrivesConf())
    assert not path.exists()
    drives_conf.save_conf(path, DrivesConf())


def test_removed_drive_and_array_leave_the_file() -> None:
    left = CONF.without({IDS[1], "/dev/vda", ARRAY, "/dev/md/my array [x]"})
    assert left.drives == {
        IDS[0]: DriveEntry("observe", Path("/m/a.linnos")),
        IDS[2]: DriveEntry("off"),
    }
    assert left.arrays == {"/dev/md1": ArrayEntry(False, {"uuid": "1:2:3:4"})}
    assert not left.is_empty
    assert CONF.without({*CONF.drives, *CONF.arrays}).is_empty


def test_a_write_that_fails_leaves_the_file(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "drives.conf"
    drives_conf.save_conf(path, CONF)
    before = path.read_text()

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(LinnappError, match="No space left"):
        drives_conf.save_conf(path, DrivesConf({IDS[3]: DriveEntry("off")}))
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_renamed_changes_all_occurrences_of_a_name() -> None:
    names = {IDS[0]: IDS[1], IDS[1]: IDS[0], ARRAY: "/dev/md0", "/dev/md1": "/dev/md2"}
    renamed = CONF.renamed(names)
    assert renamed.drives[IDS[1]] == DriveEntry("observe", Path("/m/a.linnos"), "/dev/md0")
    assert renamed.arrays["/dev/md0"].asks and "/dev/md1" not in renamed.arrays
    assert renamed.arrays["/dev/md2"] == CONF.arrays["/dev/md1"]
    with pytest.raises(ValueError, match="one name"):
        CONF.renamed({IDS[0]: IDS[1]})


def test_a_name_that_the_file_cannot_have_is_refused(tmp_path: Path) -> None:
    for model in (Path("/dev/a\nmode = off"), Path("/m/a ")):
        with pytest.raises(LinnappError, match="cannot contain line breaks or end with"):
            drives_conf.save_conf(tmp_path / "f", DrivesConf({IDS[0]: DriveEntry("off", model)}))
    assert not (tmp_path / "f").exists()


def test_unicode_line_breaks_are_kept_in_names() -> None:
    name = "/dev/md/a\u2028b\x0cc"
    conf = DrivesConf({}, {name: ArrayEntry(True)})
    assert parse(conf.to_text(), "f") == conf


DRIVE = f"[drive {IDS[0]}]\n"


def test_parse_ignores_peers_of_an_older_file_with_a_warning() -> None:
    with pytest.warns(ConfWarning, match="f:3: `peers` is ignored: .*refuses every latency-crit"):
        conf = parse(f"{DRIVE}mode = off\npeers = {IDS[1]}\n", "f")
    assert conf == DrivesConf({IDS[0]: DriveEntry("off")})
    assert "peers" not in conf.to_text()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mode = off\n", "f:1: 'mode = off' before the first section"),
        (f"# a\n\n{DRIVE}mdoe = off\n", "f:4: unknown key 'mdoe'; a drive has model, mode, array"),
        (f"{DRIVE}linnos = on\n", "f:2: unknown key 'linnos'"),
        (f"{DRIVE}mode off\n", "f:2: 'mode off', expected KEY = VALUE"),
        (f"{DRIVE}mode =\n", "f:2: 'mode =', expected KEY = VALUE"),
        (f"{DRIVE}mode = on\n", "f:2: mode 'on', expected off or observe or enforce"),
        (f"{DRIVE}mode = off\nmode = off\n", "f:3: mode is already given in line 2"),
        (f"{DRIVE}model = /m\n", f"f:1: {IDS[0]} has no mode"),
        (f"{DRIVE}mode = observe\n", f"f:1: {IDS[0]} has no model, which observe needs"),
        (f"{DRIVE}mode = off\nmodel = m\n", "f:3: model 'm', expected an absolute path"),
        (
            f"{DRIVE}mode = off\nmodel = /m/../n\n",
            "f:3: model '/m/../n', expected an abs",
        ),
        (f"{DRIVE}mode = off\narray = /dev/md0\n", r"f:3: no section \[array /dev/md0\]"),
        (f"{DRIVE}mode = off\n{DRIVE}mode = off\n", "f:3: .* already has a section in line 1"),
        ("[array /dev/md0]\nlinnos = 1\n", "f:2: linnos '1', expected on or off"),
        ("[array /dev/md0]\n", "f:1: /dev/md0 has no linnos"),
        ("[disk /dev/sda]\n", "f:1: .*expected .drive NAME. or .array NAME."),
        ("[drive /dev/sda\n", "f:1: .*expected .drive NAME."),
        ("[drive]\n", "f:1: .*expected .drive NAME."),
        ("[drive sda]\n", "f:1: 'sda', expected a path"),
        ("[drive /dev/a b]\n", "f:1: /dev/a b has no mode"),
        ("[drive dev/a b]\n", "f:1: 'dev/a b', expected a path"),
        (f"{DRIVE}mode = off\nuuid = 1\n", "f:3: unknown key 'uuid'"),
    ],
)
def test_a_bad_line_is_named(text: str, says: str) -> None:
    with pytest.raises(LinnappError, match=says):
        parse(text, "f")


def test_unreadable_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LinnappError, match="directory"):
        load_conf(tmp_path)
    (tmp_path / "f").write_bytes(b"\xff\xfe")
    with pytest.raises(LinnappError, match="not a text in UTF-8"):
        load_conf(tmp_path / "f")


def test_all_commands_use_the_same_file() -> None:
    def command() -> None:
        """Take an option."""

    [option] = conf_option(command).__click_params__  # type: ignore[attr-defined]
    assert option.default == DEFAULT_CONF
