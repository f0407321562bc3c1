"""The YAML of an environment file: ambiguous values are refused with their lines."""

from pathlib import Path
from typing import Any

import pytest

from config import ConfigError, load
from config.findings import InvalidEnvironmentError
from config.load import DIRECTORY
from config.reading.strict_yaml import MAX_BYTES, read
from tests.unit.support.findings import assert_whole

DEV = (DIRECTORY / "dev.yaml").read_text()


def refusal(directory: Path, content: str | bytes) -> list[str]:
    """Return the lines of the refusal, without the file's name."""
    file = directory / "broken.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidEnvironmentError) as refused:
        load("broken", directory)
    for finding in refused.value.findings:
        assert_whole(finding)
    return [line.removeprefix(str(file)).lstrip(": ") for line in str(refused.value).splitlines()]


@pytest.mark.parametrize(
    ("value", "reason", "fix"),
    [
        ("no", "it is text to some readers of YAML and true or false to others", "write true or false, or "),
        ("Off", "it is text to some readers of YAML and true or false to others", "write true or false, or "),
        ("010", "it is octal to some readers of YAML", "write the number without leading zeros, or "),
        ("0o10", "it is a number to some readers of YAML only", "write its digits, or "),
        ("0x1F", "it is a number to some readers of YAML only", "write its digits, or "),
        ("1_000", "it is a number to some readers of YAML only", "write its digits, or "),
        ("12:30:45", "it is a number of base 60 to some readers of YAML", "write its digits, or "),
        ("2024-01-01", "it is a date to some readers of YAML", ""),
        (".inf", "no key takes such a number", "write another number, or "),
        ("True", "some readers of YAML know only the spelling in lowercase", "write it in lowercase, or "),
        ("012345678901", "it is octal to some readers of YAML", "write the number without leading zeros, or "),
    ],
)
def test_an_ambiguous_value_is_refused_with_its_line_and_key(tmp_path: Path, value: str, reason: str, fix: str) -> None:
    """The reader does not know this key, so the fix names no value."""
    [said] = refusal(tmp_path, f"project: a\nplace: {value}\n")
    allowed = "values that every reader of YAML reads alike"
    end = f"Allowed: {allowed}. Fix: {fix}put it in quotes if text is meant."
    assert said == f"2 place: {value} is invalid: {reason}. {end}"
    assert read(_file(tmp_path, f"region: '{value}'\n")).values == {"region": value}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("node_recovery: Automatic", "node_recovery: yes"), "Allowed: Automatic, None. Fix: choose one of them."),
        (("compression: LZ4", "compression: no"), "Allowed: LZ4, NONE. Fix: did you mean 'NONE'?"),
        (("protect: true", "protect: yes"), "Allowed: true or false. Fix: write true."),
        (("protect: true", "protect: Off"), "Allowed: true or false. Fix: write false."),
        (("count: 4", "count: 0x1F"), "Allowed: a whole number, 0 to 6758. Fix: write 31."),
        (("count: 4", "count: 1_000"), "Fix: write 1000."),
        (("count: 4", "count: 010"), "Fix: write 10."),
        (("count: 4", "count: yes"), "Fix: write a whole number."),
        (('"111122223333"', "011122223333"), 'Fix: write it in quotes: "011122223333".'),
        (("region: us-west-2", "region: 2026-11-27"), 'Fix: write text such as "us-west-2".'),
    ],
)
def test_the_fix_of_an_ambiguous_value_fits_its_key(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    text = DEV.replace("region: us-west-2\n", "region: us-west-2\nprotect: true\n")
    assert change[0] in text
    [said] = refusal(tmp_path, text.replace(*change))
    assert message in said


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            "labels: {build: 1.30}",
            "1.30 is invalid: it is a decimal fraction. Allowed: the value of a Kubernetes label",
        ),
        ("labels: {build: 1.30}", 'Fix: write it in quotes: "1.30".'),
        ("labels: {build: 1e3}", 'Fix: write it in quotes: "1e3".'),
    ],
)
def test_a_fraction_keeps_its_spelling(tmp_path: Path, written: str, message: str) -> None:
    """Python would write 1.3, which is another version."""
    [said] = refusal(tmp_path, DEV.replace("    - name: head-group\n", f"    - name: head-group\n      {written}\n"))
    assert message in said


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "1: the file is invalid: it is empty. Allowed: a YAML mapping of keys to values"),
        ("# only a comment\n", "1: the file is invalid: it is empty"),
        ("---\n", "1: the document is invalid: it is a single value"),
        ("- a\n- b\n", "1: the document is invalid: it is a list. Allowed: a YAML mapping"),
        ("region: a\nregion: b\n", "2 region: key 'region' is invalid: line 1 has the same key"),
        ("network:\n\tzones: []\n", "2: the indentation is invalid: a tab cannot indent YAML"),
        ("network: {zones: [a\n", "2: the syntax is invalid: not YAML: did not find expected ',' or ']'"),
        ("a: &x 1\n", "1 a: anchor &x is invalid: it hides"),
        ("a: 1\nb: *x\n", "2 b: an alias (*) is invalid: it hides"),
        ("a: !!set {b}\n", "1 a: tag tag:yaml.org,2002:set is invalid: "),
        ("a: !!python/object/apply:os.system [ls]\n", "1 a: tag tag:yaml.org,2002:python/object/apply:os.system is"),
        ("%YAML 1.1\n---\na: b\n", "1: a directive is invalid: not every reader obeys it"),
        ("a: 1\n---\nb: 2\n", "2: a second document is invalid: only one is read"),
        ("a: b: c\n", "1: the syntax is invalid: not YAML: mapping values are not allowed in this context"),
        ("a: 'b\n", "2: the syntax is invalid: not YAML: found unexpected end of stream"),
        ("a: b\n1: c\n", "2: key 1 is invalid: it is not text"),
        ("a:\n  ? [a, b]\n  : c\n", "2 a: this key is invalid: it is not text"),
        ("a: b\nc: \x07\n", "2: character U+0007 is invalid: YAML does not allow it"),
        (b"a: b\nc: \xff\n", "2: byte 0xff is invalid: it is not UTF-8"),
        (DEV.encode("utf-16"), "1: byte 0xff is invalid: it is not UTF-8"),
        ("a: " + "[" * 100 + "]" * 100, "1 a.0.0."),
        ("- " * 50_000, "1 0.0."),
        ("a: " + "{a: " * 40_000, "1 a.a."),
        ("a" * (MAX_BYTES + 1), "a file of 262,145 bytes is invalid: no environment file needs so many"),
    ],
)
def test_anything_but_one_plain_document_is_refused_with_its_line(
    tmp_path: Path, content: str | bytes, message: str
) -> None:
    said = refusal(tmp_path, content)
    assert said[0].startswith(message)


def test_a_file_of_ten_megabytes_is_not_even_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: Any) -> bytes:
        raise AssertionError("was read")

    with (tmp_path / "broken.yaml").open("wb") as file:
        file.truncate(10_000_000)
    monkeypatch.setattr(Path, "read_bytes", never)
    with pytest.raises(ConfigError, match=r"10,000,000 bytes is invalid: .* Allowed: 262,144 bytes"):
        load("broken", tmp_path)


def test_aliases_of_aliases_do_not_explode(tmp_path: Path) -> None:
    levels = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12))
    said = refusal(tmp_path, f"l0: &l0 lol\n{levels}\n")
    assert len(said) == 12 + 9 * 11


def test_merge_keys_are_refused(tmp_path: Path) -> None:
    said = refusal(tmp_path, "a: &x {b: c}\nd:\n  <<: *x\n")
    assert [line.split(" ")[0] for line in said] == ["1", "3", "3"]


def test_all_faults_of_the_yaml_are_reported_at_once(tmp_path: Path) -> None:
    said = refusal(tmp_path, "a: no\nb: 010\nb: c\n")
    assert [line.split(" ")[0] for line in said] == ["1", "2", "3"]


def test_a_byte_order_mark_and_windows_line_endings_are_no_fault(tmp_path: Path) -> None:
    file = tmp_path / "dev.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + DEV.replace("\n", "\r\n").encode())
    assert load("dev", tmp_path) == load("dev")


def test_plain_values_are_read_as_they_are(tmp_path: Path) -> None:
    text = "a: [1, -2, 0, 1.5, 1e3, true, false, null, ~, text, 1.2.0, v1, 10.0.0.0/16, '1', \"2\"]\nb:\n"
    values = [1, -2, 0, 1.5, 1e3, True, False, None, None, "text", "1.2.0", "v1", "10.0.0.0/16", "1", "2"]
    assert read(_file(tmp_path, text)).values == {"a": values, "b": None}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("protect: true", 'protect: "yes"'), "protect: 'yes' is invalid: it is text. Allowed: true or false. "),
        (
            ("count: 4", "count: 4.0"),
            "count: 4.0 is invalid: it is a decimal fraction. Allowed: a whole number, 0 to 6758. Fix: write 4.",
        ),
        (("count: 4", "count:"), "count: (empty) is invalid: the key has no value. "),
        (("count: 4", "count: 99999999999999999999999"), "count: '99999999999999999999999' is invalid: it is text. "),
        (
            ("count: 4", "count: 7000"),
            "count: 7000 is invalid: it is too high. Allowed: a whole number, 0 to 6758. Fix: lower it.",
        ),
        (('"111122223333"', "111122223333"), "account: 111122223333 is invalid: it is a whole number. "),
        (("region: us-west-2", "region: [us-west-2]"), "region: [us-west-2] is invalid: it is a list. "),
        (("compression: LZ4", "compression: lz4"), "Allowed: LZ4, NONE. Fix: did you mean 'LZ4'?"),
        (("203.0.113.0/24", "203.0.113.7/24"), "its address has digits after the /24. "),
        (("203.0.113.0/24", "203.0.113.7/24"), "Fix: write 203.0.113.0/24."),
        (("203.0.113.0/24", "office"), "'office' is invalid: it is not an address block. "),
        (("claim: fsx-claim", "clam: fsx-claim"), "Fix: did you mean 'claim'?"),
        (
            ("clusters:\n", "clusters: []\n  x:\n"),
            "ray.clusters: [] is invalid: it has 0 items. Allowed: 1 items or more. ",
        ),
        (("node_recovery: Automatic", "node_recovery: Manual"), "'Manual' is invalid: it is not one of the values. "),
        (
            ("region: us-west-2", "region: us-west-2a"),
            "it is the name of a zone. Allowed: the code of an AWS region, such as",
        ),
        (("role/PlatformAdmin", "user/me"), "it is the ARN of a user. Allowed: the ARN of an IAM role, such as "),
        (
            ('"111122223333"', '"1111-2222-3333"'),
            "it has the hyphens that the console shows. Allowed: an AWS account id",
        ),
        (
            ("name: worker-group-1", "name: worker_group_1"),
            "Allowed: a name of 1 to 63 letters, digits and inner hyphens",
        ),
        (
            ("replicas: 4\n", "replicas: 4\n          env: {A: b}\n"),
            "Fix: move `env` to `ray.clusters[]`, where it belongs.",
        ),
        (
            (
                "instance_type: ml.m5.2xlarge\n",
                "instance_type: ml.m5.2xlarge\n      type_facts: {vcpus: 8, memory_gib: 32, threads_per_core: [1], "
                "pod_cap: 9, ips_per_node: 9, accelerators: 1}\n",
            ),
            "it has only accelerators. Allowed: accelerators together with accelerator_resource. Fix: give both or",
        ),
        (
            ("region: us-west-2\n", "region: us-west-2\nzones: [usw2-az1]\n"),
            "Fix: move `zones` to `network`, where it belongs",
        ),
    ],
)
def test_the_finding_of_a_wrong_type_says_what_to_write(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    text = DEV.replace("region: us-west-2\n", "region: us-west-2\nprotect: true\n")
    assert change[0] in text
    said = refusal(tmp_path, text.replace(*change))
    assert [line for line in said if message in line], said


@pytest.mark.parametrize("value", ["98765432101234", "[hf_98765432101234]", "0098765432101234", "{a: 98765432101234}"])
def test_a_variable_s_value_is_never_shown(tmp_path: Path, value: str) -> None:
    """The value may be a token, and logs contain findings."""
    [said] = refusal(tmp_path, DEV.replace("    - name: rayml\n", f"    - name: rayml\n      env: {{HUB: {value}}}\n"))
    assert "env.HUB: a value that is not shown is invalid: it is " in said
    assert "9876" not in said


def test_a_name_of_a_ray_cluster_that_is_too_long_is_one_finding(tmp_path: Path) -> None:
    """Pydantic would also report the list as empty, because the invalid item is its only one."""
    [said] = refusal(tmp_path, DEV.replace("- name: rayml", f"- name: {'r' * 33}"))
    assert f"name: '{'r' * 33}' is invalid: it has another form. Allowed: a name of 1 to 32 lowercase letters" in said


def _file(directory: Path, text: str) -> Path:
    file = directory / "values.yaml"
    file.write_text(text)
    return file
