"""Archives that a pull request's code could hand over: the second job refuses them, and the gate stays closed."""

import io
import json
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ops.review.checkouts import handover
from ops.review.kubernetes import charts
from tests.support import pull_requests
from tests.support.pull_requests import PullRequest

TEMPLATE = "rayhp-dev-storage.template.json"
CHART = "c" * 64
Archive = list[tuple[str | zipfile.ZipInfo, bytes]]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> PullRequest:
    """Return a pull request whose second job waits for what is handed over."""
    directory = tmp_path_factory.mktemp("handed-over")
    made = PullRequest(directory, pull_requests.origin(directory / "origin").root)
    made.author.environment("dev", "AWS::S3::Bucket", storage={"BucketName": "before"})
    made.author.write("environments/dev.yaml", "# another")
    assert made.run() == 0, made.log
    return made


def assembly(resources: Any = None, **artifact: Any) -> Archive:
    """Return a harmless assembly, or one with these resources."""
    same = {"Thing": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "before"}}}
    stack = {"type": "aws:cloudformation:stack", "properties": {"templateFile": TEMPLATE}} | artifact
    return [
        ("dev/manifest.json", json.dumps({"artifacts": {"storage": stack}}).encode()),
        (f"dev/{TEMPLATE}", json.dumps({"Resources": same if resources is None else resources}).encode()),
    ]


def entry(name: str, mode: int = stat.S_IFREG, method: int = zipfile.ZIP_DEFLATED) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.external_attr = mode << 16
    made.compress_type = method
    return made


def packed(archive: Archive) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in archive:
            opened.writestr(name, data)
    return made.getvalue()


def declared(archive: bytes, number: int, size: int) -> bytes:
    """Return the archive with another uncompressed size of one file, in both of its headers."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        local = opened.infolist()[number].header_offset
    central = -1
    for _ in range(number + 1):
        central = archive.index(b"PK\1\2", central + 1)
    made = bytearray(archive)
    made[local + 22 : local + 26] = made[central + 24 : central + 28] = struct.pack("<I", size)
    return bytes(made)


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def chart(text: str) -> Archive:
    """Return an assembly with a release whose chart only copies this file of objects."""
    properties = {"Release": "r", "Namespace": "ray", "ChartAssetURL": f"s3://bucket/{CHART}.zip", "Values": "{}"}
    found = assembly({"Release": {"Type": "Custom::AWSCDK-EKS-HelmChart", "Properties": properties}})
    copies = [("Chart.yaml", "name: r\n"), ("templates/o.yaml", charts._COPIES), ("files/o.yaml", text)]
    return [*found, *((f"dev/asset.{CHART}/{name}", content.encode()) for name, content in copies)]


def manifest(document: str) -> Archive:
    kind = "Custom::AWSCDK-EKS-KubernetesResource"
    return assembly({"Manifest": {"Type": kind, "Properties": {"Manifest": document}}})


BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30))
DEVICE = "it is a link or a device"
ODD = "its name is odd"

ATTACKS: dict[str, tuple[Callable[[], Archive | bytes], str]] = {
    "parent folder": (lambda: [*assembly(), ("dev/../../base/ops/gate/gate.py", b"")], ODD),
    "absolute name": (lambda: [*assembly(), ("/tmp/evil", b"")], ODD),
    "backslashes": (lambda: [*assembly(), ("dev/..\\..\\evil", b"")], ODD),
    "drive": (lambda: [*assembly(), ("C:/evil", b"")], ODD),
    "dots": (lambda: [*assembly(), ("dev/.../evil", b"")], ODD),
    "empty name": (lambda: [*assembly(), ("dev//evil", b"")], ODD),
    "NUL": (lambda: packed([*assembly(), ("dev/eNUL", b"")]).replace(b"eNUL", b"e\0UL"), ODD),
    "newline and a command": (lambda: [*assembly(), ("dev/\n::add-mask::closed", b"")], ODD),
    "terminal's escape": (lambda: [*assembly(), ("dev/\x1b[2K", b"")], ODD),
    "reordered text": (lambda: [*assembly(), ("dev/\u202etxt", b"")], ODD),
    "pattern": (lambda: [*assembly(), ("dev/asset.*", b"")], ODD),
    "long name": (lambda: [*assembly(), (f"dev/{'x' * 129}", b"")], ODD),
    "deep folders": (lambda: [*assembly(), ("dev/" + "x/" * 20 + "x", b"")], ODD),
    "link": (lambda: [*assembly(), (entry("dev/a", stat.S_IFLNK | 0o777), b"/proc/self/environ")], DEVICE),
    "link as a folder": (lambda: [*assembly(), (entry("dev/a/", stat.S_IFLNK), b"/etc")], DEVICE),
    "device": (lambda: [*assembly(), (entry("dev/a", stat.S_IFCHR), b"")], DEVICE),
    "pipe": (lambda: [*assembly(), (entry("dev/a", stat.S_IFIFO), b"")], DEVICE),
    "two cases of a name": (lambda: [*assembly(), ("dev/Manifest.json", b"{}")], "differ in case alone"),
    "file and folder": (lambda: [*assembly(), ("dev/a", b""), ("dev/A/b", b"")], "a file is a folder too"),
    "no folder": (lambda: [*assembly(), ("manifest.json", b"")], "it is in no environment's folder"),
    "unknown environment": (lambda: [*assembly(), ("prod/manifest.json", b"{}")], "no environment has this name"),
    "too many files": (
        lambda: [*assembly(), *((f"dev/{n}", b"") for n in range(handover.MAX_FILES))],
        "it unpacks to 20,002 files",
    ),
    "bomb": (lambda: declared(packed([*assembly(), ("dev/a", b"x")]), 2, (1 << 32) - 2), "it unpacks to 3 files of 4,"),
    "bomb that names a small size": (lambda: declared(packed([("dev/a", b"0" * (1 << 22))]), 0, 9), "Bad CRC-32"),
    "bomb within": (
        lambda: [*assembly(), (f"dev/asset.{CHART}.zip", declared(packed([("a", b"x")]), 0, (1 << 32) - 2))],
        "it unpacks to 1 files of 4,",
    ),
    "odd compression": (lambda: [*assembly(), (entry("dev/a", method=zipfile.ZIP_BZIP2), b"x")], "compression is odd"),
    "encryption": (
        lambda: (made := packed([("dev/a", b"x")])).replace(
            b"PK\1\2" + made[made.index(b"PK\1\2") + 4 :][:4] + b"\0\0",
            b"PK\1\2" + made[made.index(b"PK\1\2") + 4 :][:4] + b"\1\0",
        ),
        "encryption or compression is odd",
    ),
    "no archive": (lambda: b"no archive", "it cannot be unpacked"),
    "nothing": (lambda: b"", "it cannot be unpacked"),
    "cut archive": (lambda: packed(assembly())[:-30], "it cannot be unpacked"),
    "no assembly": (lambda: [("dev/other", b"")], "dev/manifest.json: it cannot be read"),
    "no environment": (lambda: [], "the head handed over no assembly of dev"),
    "JSON of 100,000 levels": (lambda: [("dev/manifest.json", nested(100_000))], "it cannot be read"),
    "JSON of 150 levels": (lambda: [("dev/manifest.json", nested(150))], "it is nested too deeply"),
    "JSON with a long number": (lambda: [("dev/manifest.json", b"1" * 5000)], "it cannot be read"),
    "large template": (
        lambda: [*assembly()[:1], (f"dev/{TEMPLATE}", b" " * (handover.MAX_DOCUMENT_BYTES + 1))],
        "it has 33,554,433 bytes",
    ),
    "template elsewhere": (
        lambda: assembly(properties={"templateFile": "../../head/package.json"}),
        "templateFile is no file name",
    ),
    "template of the machine": (lambda: assembly(properties={"templateFile": "/etc/x"}), "templateFile is no file"),
    "template without a name": (lambda: assembly(properties={"templateFile": ["x"]}), "templateFile is no file name"),
    "artifacts as a list": (lambda: [("dev/manifest.json", b'{"artifacts": []}')], "it cannot be read"),
    "resource as a text": (lambda: assembly({"Thing": "AWS::S3::Bucket"}), "it cannot be read"),
    "properties as a list": (lambda: assembly({"Thing": {"Type": "AWS::X", "Properties": []}}), "it cannot be read"),
    "assembly within an assembly": (lambda: assembly(type="cdk:cloud-assembly"), "has a nested assembly (a Stage)"),
    "YAML bomb in objects": (lambda: chart(BOMB), "its aliases stand for too many values"),
    "YAML that contains itself": (lambda: chart("&a [*a]"), "its aliases stand for too many values"),
    "YAML of 100,000 levels": (lambda: chart(nested(100_000).decode()), "o.yaml: it is nested too deeply"),
    "YAML of 100,000 lists in a line": (lambda: chart("- " * 100_000), "o.yaml: it is nested too deeply"),
    "YAML tag": (lambda: chart("!!python/object/apply:os.system ['touch /tmp/ran']"), "is not YAML"),
    "objects of 100,000 levels": (lambda: manifest(nested(100_000).decode()), "cannot read the head: RecursionError"),
    "object without a kind": (lambda: manifest('{"metadata": []}'), "no Kubernetes object"),
}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("attack", ATTACKS)
def test_archive_is_refused(attack: str, prepared: PullRequest, tmp_path: Path) -> None:
    make, said = ATTACKS[attack]
    made = make()
    if isinstance(made, bytes):
        (tmp_path / "archive").write_bytes(made)
    before = sorted(prepared.directory.rglob("*.py"))
    assert prepared.review_again(tmp_path / "archive" if isinstance(made, bytes) else made) == 2, prepared.log
    assert said in prepared.log
    assert "Traceback" not in prepared.log
    assert "**Nobody knows yet: the gate stays closed.**" in prepared.review
    assert sorted(prepared.directory.rglob("*.py")) == before, "it wrote outside its folder"


def files(folder: Path) -> Iterator[Callable[[], None]]:
    """Yield what makes each kind of a folder that holds more or less than one archive."""
    real = folder / "assemblies.zip"

    def two() -> None:
        (folder / "b.zip").write_bytes(real.read_bytes())

    def linked() -> None:
        real.rename(folder.parent / "moved.zip")
        real.symlink_to("../moved.zip")

    yield from (real.unlink, two, linked)


@pytest.mark.parametrize("number", range(3))
def test_folder_with_anything_but_one_archive_is_refused(number: int, tmp_path: Path) -> None:
    folder = tmp_path / "downloaded"
    folder.mkdir()
    (folder / "assemblies.zip").write_bytes(packed(assembly()))
    (tmp_path / "out").mkdir()
    assert handover.read(folder, tmp_path / "out", {"dev"})
    list(files(folder))[number]()
    with pytest.raises(Exception, match="Allowed: one archive"):
        handover.read(folder, tmp_path / "out", {"dev"})


def test_a_program_in_an_assembly_is_not_run(prepared: PullRequest, tmp_path: Path) -> None:
    """A deployment's layer has Helm, and a review of one's own checkouts runs it."""
    helm = f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n".encode()
    layer = f"dev/asset.{'d' * 64}.zip"
    assert prepared.review_again([*chart("{}\n---\n"), (layer, packed([("helm/helm", helm)]))]) != 0
    rendered = [each for each in chart("") if "/files/" not in str(each[0])]
    rendered.append(
        (f"dev/asset.{CHART}/templates/more.yaml", b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    )
    assert prepared.review_again([*rendered, (layer, packed([("helm/helm", helm)]))]) == 1, prepared.log
    assert "STOPPED" in prepared.log
    assert not (tmp_path / "ran").exists()


HELM = """#!/bin/sh
# Helm 3 runs this option's program, wherever the option stands before `--`.
for word; do
  case "$word" in
    --) exit 1 ;;
    --post-renderer=*) "${word#*=}" ;;
  esac
done
"""


def test_a_release_whose_name_is_an_option_runs_no_program(prepared: PullRequest, tmp_path: Path) -> None:
    evil, helm = tmp_path / "evil", prepared.directory / "gate" / "programs" / "helm"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    helm.write_text(HELM)
    for program in (evil, helm):
        program.chmod(0o755)
    [found] = [data for name, data in chart("") if name == f"dev/{TEMPLATE}"]
    option = found.replace(b'"Release": "r"', json.dumps({"Release": f"--post-renderer={evil}"})[1:-1].encode())
    rest = [each for each in chart("") if each[0] != f"dev/{TEMPLATE}" and "/files/" not in str(each[0])]
    more = (f"dev/asset.{CHART}/templates/more.yaml", b"")
    try:
        assert prepared.review_again([*rest, (f"dev/{TEMPLATE}", option), more]) == 1, prepared.log
    finally:
        helm.unlink()
    assert not (tmp_path / "ran").exists()


def test_a_harmless_archive_is_read(prepared: PullRequest) -> None:
    assert prepared.review_again(assembly()) == 0, prepared.log
