# SPDX-License-Identifier: MIT
"""drives.conf: a saved file loads unchanged, and errors name the section or the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from linnapp.commands._options import conf_option
from linnapp.drive.drives_conf import (
    DEFAULT_CONF,
    ArrayEntry,
    DriveEntry,
    DrivesConf,
    load_conf,
    parse,
    save_conf,
)
from linnapp.errors import ConfWarning, LinnappError

IDS = [f"/dev/disk/by-id/wwn-0x500{k}" for k in range(4)]
ARRAY = "/dev/disk/by-id/md-uuid-1:2:3:4"
CONF = DrivesConf(
    {
        IDS[0]: DriveEntry("observe", Path("/m/a.linnos"), ARRAY),
        IDS[1]: DriveEntry("enforce", Path("/m/with a space = #.linnos")),
        IDS[2]: DriveEntry("off"),
        "/dev/vda": DriveEntry("off", identity={"serial": "S 1%", "sectors": "2048"}),
    },
    {
        ARRAY: ArrayEntry(True),
        "/dev/md1": ArrayEntry(False, {"uuid": "1:2:3:4"}),
        "/dev/md/my array [x]": ArrayEntry(True),
        "/dev/md/a\u2028b\x0cc": ArrayEntry(True),
    },
)


def test_saved_configuration_loads_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "etc" / "linnapp" / "drives.conf"
    assert load_conf(path).is_empty
    save_conf(path, CONF)
    assert load_conf(path) == CONF
    assert list(path.parent.iterdir()) == [path]
    # The file explains every setting.
    for word in ("model = ", "mode = ", "array = ", "linnos = ", "wwid, ", "uuid = "):
        assert f"#   {word}" in path.read_text()

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(LinnappError, match="No space left"):
        patch.setattr("os.fsync", full)
        save_conf(path, DrivesConf({IDS[3]: DriveEntry("off")}))
    for model in (Path("/dev/a\nmode = off"), Path("/m/a ")):
        with pytest.raises(LinnappError, match="cannot contain line breaks or end with"):
            save_conf(path, DrivesConf({IDS[0]: DriveEntry("off", model)}))
    assert load_conf(path) == CONF and list(path.parent.iterdir()) == [path]
    for _ in range(2):
        save_conf(path, DrivesConf())
        assert not path.exists()


def test_removed_and_renamed_devices_change_everywhere() -> None:
    remaining = CONF.without({IDS[1], "/dev/vda", ARRAY, "/dev/md/my array [x]"})
    assert remaining.drives == {
        IDS[0]: DriveEntry("observe", Path("/m/a.linnos")),
        IDS[2]: DriveEntry("off"),
    }
    assert len(remaining.arrays) == 2 and not remaining.is_empty
    assert CONF.without({*CONF.drives, *CONF.arrays}).is_empty
    names = {IDS[0]: IDS[1], IDS[1]: IDS[0], ARRAY: "/dev/md0", "/dev/md1": "/dev/md2"}
    renamed = CONF.renamed(names)
    assert renamed.drives[IDS[1]] == DriveEntry("observe", Path("/m/a.linnos"), "/dev/md0")
    assert renamed.arrays["/dev/md0"].asks and "/dev/md1" not in renamed.arrays
    assert renamed.arrays["/dev/md2"] == CONF.arrays["/dev/md1"]
    with pytest.raises(ValueError, match="one name"):
        CONF.renamed({IDS[0]: IDS[1]})


DRIVE = f"[drive {IDS[0]}]\n"


def test_parse_ignores_peers_of_an_older_file_with_a_warning() -> None:
    with pytest.warns(ConfWarning, match="f: `peers` is ignored: .*refuses every latency-crit"):
        conf = parse(f"{DRIVE}mode = off\npeers = {IDS[1]}\n", "f")
    assert conf == DrivesConf({IDS[0]: DriveEntry("off")})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mode = off\n", r"no section headers. file: 'f', line: 1 .*expected sections \[drive"),
        (f"{DRIVE}mode off\n", r"'f' \[line 2\]: 'mode off.*expected .* KEY = VALUE"),
        (f"{DRIVE}mode = off\n mode = off\n", r"'f' \[line 3\]: option 'mode' .* already exists"),
        (f"{DRIVE}mode = off\n{DRIVE}mode = off\n", r"'f' \[line 3\]: section .* already exists"),
        (f"{DRIVE}mdoe = off\n", r"f: \[drive .*unknown key 'mdoe'; a drive has model, mode"),
        (f"{DRIVE}mode =\n", "mode has no value"),
        (f"{DRIVE}mode = on\n", "mode is 'on', expected off or observe or enforce"),
        (f"{DRIVE}model = /m\n", "mode is missing, expected off or"),
        (f"{DRIVE}mode = observe\n", "no model, which observe needs"),
        (f"{DRIVE}mode = off\nmodel = m\n", "model 'm', expected an absolute path"),
        (f"{DRIVE}mode = off\nmodel = /m/../n\n", "model '/m/../n', expected an abs"),
        (f"{DRIVE}mode = off\narray = /dev/md0\n", r"no section \[array /dev/md0\]"),
        ("[array /dev/md0]\nlinnos = 1\n", "linnos is '1', expected on or off"),
        ("[disk /dev/sda]\n", r"f: \[disk /dev/sda\]: expected .drive PATH. or .array PATH."),
        ("[drive /dev/sda\n", "line: 1 .*expected sections .drive PATH."),
        ("[drive]\n", "expected .drive PATH."),
        ("[drive sda]\n", "expected .drive PATH."),
    ],
)
def test_drives_conf_error_names_the_bad_line(text: str, message: str) -> None:
    with pytest.raises(LinnappError, match=message):
        parse(text, "f")


def test_unreadable_drives_conf_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LinnappError, match="directory"):
        load_conf(tmp_path)
    (tmp_path / "f").write_bytes(b"\xff\xfe")
    with pytest.raises(LinnappError, match="not a text in UTF-8"):
        load_conf(tmp_path / "f")


def test_byte_order_mark_of_an_editor_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "f").write_text(f"{DRIVE}mode = off\n", "utf-8-sig")
    assert [entry.mode for entry in load_conf(tmp_path / "f").drives.values()] == ["off"]


def test_all_commands_use_the_same_file() -> None:
    def command() -> None:
        """Take an option."""

    [option] = conf_option(command).__click_params__  # type: ignore[attr-defined]
    assert option.default == DEFAULT_CONF
