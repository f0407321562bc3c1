"""What a file may be made of: values that all readers of YAML read alike, and a line for what they do not."""

from pathlib import Path
from typing import Any

import pytest

from config import ConfigError, load
from config.document import MAX_BYTES, read
from config.load import DIRECTORY

DEV = (DIRECTORY / "dev.yaml").read_text()


def refusal(directory: Path, content: str | bytes) -> list[str]:
    """The lines of the refusal of the file, without the file's name."""
    file = directory / "broken.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError) as refused:
        load("broken", directory)
    return [line.removeprefix(f"{file}: ") for line in str(refused.value).splitlines()]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no", "no is text to some readers of YAML and true or false to others: write true or false"),
        ("Off", "Off is text to some readers of YAML and true or false to others: write true or false"),
        ("010", "010 is octal to some readers of YAML: write the number without leading zeros"),
        ("0o10", "0o10 is a number to some readers only: write its digits"),
        ("0x1F", "0x1F is a number to some readers only: write its digits"),
        ("1_000", "1_000 is a number to some readers only: write its digits"),
        ("12:30:45", "12:30:45 is a number of base 60 to some readers of YAML"),
        ("2024-01-01", "2024-01-01 is a date to some readers of YAML"),
        (".inf", ".inf is no number that a key takes"),
        ("True", "True has another spelling: write it in small letters"),
        ("012345678901", "012345678901 is octal to some readers of YAML: write the number without leading zeros"),
    ],
)
def test_a_value_that_readers_take_differently_is_refused_with_its_line(
    tmp_path: Path, value: str, message: str
) -> None:
    [said] = refusal(tmp_path, f"project: a\nregion: {value}\n")
    assert said == f"line 2: {message}; put it in quotes where text is meant"
    assert read(_file(tmp_path, f"region: '{value}'\n")) == {"region": value}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1: the file is empty; it must be a YAML mapping of keys to values"),
        ("# only a comment\n", "line 1: the file is empty; it must be a YAML mapping of keys to values"),
        ("---\n", "line 1: must be a YAML mapping of keys to values"),
        ("- a\n- b\n", "line 1: must be a YAML mapping of keys to values"),
        ("region: a\nregion: b\n", "line 2: key 'region' stands here twice"),
        ("network:\n\tzones: []\n", "line 2: a tab cannot indent YAML; use spaces"),
        ("network: {zones: [a\n", "line 2: not YAML: did not find expected ',' or ']'"),
        ("a: &x 1\n", "line 1: anchor &x is not allowed; write the value out"),
        ("a: 1\nb: *x\n", "line 2: an alias (*) is not allowed; write the value out"),
        ("a: !!set {b}\n", "line 1: tag tag:yaml.org,2002:set is not allowed"),
        ("a: !!python/object/apply:os.system [ls]\n", "line 1: tag tag:yaml.org,2002:python/object/apply:os.system is"),
        ("%YAML 1.1\n---\na: b\n", "line 1: directives (%YAML, %TAG) are not allowed"),
        ("a: 1\n---\nb: 2\n", "line 2: a second document (---) begins; allowed: one"),
        ("a: b: c\n", "line 1: not YAML: mapping values are not allowed in this context"),
        ("a: 'b\n", "line 2: not YAML: found unexpected end of stream"),
        ("a: b\n1: c\n", "line 2: 1 is not text; keys are text: put it in quotes where it is meant"),
        ("? [a, b]\n: c\n", "line 1: this key is not text; keys are text: put it in quotes where it is meant"),
        ("a: b\nc: \x07\n", "line 2: character U+0007 is not allowed in YAML"),
        (b"a: b\nc: \xff\n", "line 2: byte 0xff is not UTF-8; save the file as UTF-8"),
        (DEV.encode("utf-16"), "line 1: byte 0xff is not UTF-8; save the file as UTF-8"),
        ("a: " + "[" * 100 + "]" * 100, "line 1: nested more than 32 deep"),
        ("- " * 50_000, "line 1: nested more than 32 deep"),
        ("a: " + "{a: " * 40_000, "line 1: nested more than 32 deep"),
        ("a" * (MAX_BYTES + 1), "262,145 bytes; allowed: 262,144, far more than an environment needs"),
    ],
)
def test_what_is_no_plain_document_is_refused_with_its_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    said = refusal(tmp_path, content)
    assert said[0].startswith(message)


def test_a_file_of_ten_megabytes_is_not_even_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: Any) -> bytes:
        raise AssertionError("was read")

    with (tmp_path / "broken.yaml").open("wb") as file:
        file.truncate(10_000_000)
    monkeypatch.setattr(Path, "read_bytes", never)
    with pytest.raises(ConfigError, match="10,000,000 bytes; allowed: 262,144"):
        load("broken", tmp_path)


def test_aliases_of_aliases_do_not_explode(tmp_path: Path) -> None:
    levels = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12))
    said = refusal(tmp_path, f"l0: &l0 lol\n{levels}\n")
    assert len(said) == 12 + 9 * 11


def test_merge_keys_are_refused(tmp_path: Path) -> None:
    said = refusal(tmp_path, "a: &x {b: c}\nd:\n  <<: *x\n")
    assert [line.split(":")[0] for line in said] == ["line 1", "line 3", "line 3"]


def test_all_such_faults_come_at_once(tmp_path: Path) -> None:
    said = refusal(tmp_path, "a: no\nb: 010\nb: c\n")
    assert [line.split(":")[0] for line in said] == ["line 1", "line 2", "line 3"]


def test_a_byte_order_mark_and_windows_line_endings_are_no_fault(tmp_path: Path) -> None:
    file = tmp_path / "dev.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + DEV.replace("\n", "\r\n").encode())
    assert load("dev", tmp_path) == load("dev")


def test_plain_values_are_read_as_they_are(tmp_path: Path) -> None:
    text = "a: [1, -2, 0, 1.5, 1e3, true, false, null, ~, text, 1.2.0, v1, 10.0.0.0/16, '1', \"2\"]\nb:\n"
    values = [1, -2, 0, 1.5, 1e3, True, False, None, None, "text", "1.2.0", "v1", "10.0.0.0/16", "1", "2"]
    assert read(_file(tmp_path, text)) == {"a": values, "b": None}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("protect: true", 'protect: "yes"'), "protect: got 'yes'; allowed: true or false"),
        (("count: 4", "count: 4.0"), "count: got 4.0; allowed: a whole number"),
        (("count: 4", "count:"), "count: is empty (null); allowed: a whole number"),
        (("count: 4", "count: 99999999999999999999999"), "count: got '99999999999999999999999'; allowed: a whole"),
        (("count: 4", "count: 7000"), "count: got 7000; allowed: 6758 and less"),
        (('"111122223333"', "111122223333"), 'account: got 111122223333; allowed: text; write it in quotes: "1111'),
        (("region: us-west-2", "region: [us-west-2]"), "region: got a list; allowed: text"),
        (("compression: LZ4", "compression: lz4"), "fsx.compression: got 'lz4'; allowed: 'LZ4' or 'NONE'"),
        (("203.0.113.0/24", "203.0.113.7/24"), "203.0.113.7/24 has host bits set"),
        (
            ("claim: fsx-claim", "clam: fsx-claim"),
            "fsx.clam: is not a key here (unknown, or not supported yet); allowed:",
        ),
        (("clusters:\n", "clusters: []\n  x:\n"), "ray.clusters: 0 of them; allowed: 1 and more"),
        (("node_recovery: Automatic", "node_recovery: Manual"), "got 'Manual'; allowed: 'Automatic' or 'None'"),
    ],
)
def test_a_value_of_a_wrong_kind_says_what_to_write(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    text = DEV.replace("region: us-west-2\n", "region: us-west-2\nprotect: true\n")
    assert change[0] in text
    said = refusal(tmp_path, text.replace(*change))
    assert [line for line in said if message in line], said


def test_a_name_of_a_ray_cluster_that_is_too_long_is_one_finding(tmp_path: Path) -> None:
    """Pydantic would also say that the list, whose only item it is, had none."""
    [said] = refusal(tmp_path, DEV.replace("- name: rayml", f"- name: {'r' * 33}"))
    assert f"name: got '{'r' * 33}'; allowed: text that matches ^[a-z]([-a-z0-9]{{0,30}}[a-z0-9])?$" in said


def _file(directory: Path, text: str) -> Path:
    file = directory / "values.yaml"
    file.write_text(text)
    return file
