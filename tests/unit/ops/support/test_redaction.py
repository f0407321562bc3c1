"""No secret survives in a bundle, however a log, an object or an answer contains it."""

import json
import string
import tarfile
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.support.bundle import BundlePart, CollectedFile, collect, write
from ops.support.redaction import REDACTED, Redaction

ACCOUNT: Final = "111122223333"
OTHER: Final = "444455556666"
UPPER: Final = string.ascii_uppercase + string.digits
WORD: Final = string.ascii_letters + string.digits


def word(alphabet: str, size: int) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=size, max_size=size)


# What a secret looks like by itself, wherever it stands.
BARE: Final = st.one_of(
    word(UPPER, 16).map("AKIA".__add__),
    word(UPPER, 16).map("ASIA".__add__),
    word(WORD, 37).map("aA1".__add__),
    word(WORD, 60).map("IQoJb3JpZ2luX2Vj".__add__),
    word(WORD, 30).map("k8s-aws-v1.".__add__),
    st.tuples(word(WORD, 20), word(WORD, 30), word(WORD, 20)).map(lambda parts: "eyJ" + ".".join(parts)),
    word(WORD, 36).map("ghp_".__add__),
    word(WORD, 30).map("hf_".__add__),
    word(string.ascii_lowercase, 12).map(lambda name: f"{name}@mail.example.com"),
)
# What only its place gives away.
PLAIN: Final = word(string.ascii_letters + string.digits + "_,;&}", 12).map("q".__add__)
SECRET_NAMES: Final = st.sampled_from(
    ["WANDB_API_KEY", "HF_TOKEN", "db_password", "aws_secret_access_key", "SessionToken", "private-key", "Cookie"]
)
PLACES: Final = (
    "{name}={secret}",
    '{name}="a\\"{secret}"',
    "export {name}='{secret}'",
    '{name}: "{secret}"',
    '{{"{name}": "{secret}"}}',
    '{{\\"{name}\\": \\"{secret}\\"}}',
    "python train.py --{name} {secret} --epochs 3",
    "Authorization: Bearer {secret}",
    '{{"Authorization": "AWS4-HMAC-SHA256 Credential=x, Signature={secret}"}}',
    "GET https://bucket.s3.amazonaws.com/key?X-Amz-Expires=60&X-Amz-Signature={secret} 200",
    "cloning https://user:{secret}@git.example.com/repository",
    "-----BEGIN RSA PRIVATE KEY-----\n{secret}\n-----END RSA PRIVATE KEY-----",
)
AROUND: Final = st.sampled_from(["", " ", "\n", '"', "[rayml-head] ", ", ", "(", "→ "])


@st.composite
def planted_texts(draw: st.DrawFn) -> tuple[str, str]:
    """A log with one secret, and the secret."""
    if draw(st.booleans()):
        secret = draw(BARE)
        return f"step 1{draw(AROUND)}{secret}{draw(st.sampled_from(['', ' ', chr(10), chr(34), ', ', ')']))}", secret
    secret = draw(PLAIN)
    place = draw(st.sampled_from(PLACES))
    return draw(AROUND) + place.format(name=draw(SECRET_NAMES), secret=secret), secret


@st.composite
def planted_data(draw: st.DrawFn) -> tuple[Any, str]:
    """An object with one secret somewhere, and the secret."""
    if draw(st.booleans()):
        text, secret = draw(planted_texts())
        value: Any = text
    else:
        secret = draw(PLAIN)
        name = draw(SECRET_NAMES)
        value = draw(
            st.sampled_from(
                [
                    {name: secret},
                    {name: [secret]},
                    {"name": name, "value": secret},
                    {"value": secret, "name": name},
                    ["train", f"--{name}", secret],
                ]
            )
        )
    for _ in range(draw(st.integers(0, 3))):
        value = draw(st.sampled_from([[1, value, None], {"spec": value}, {"containers": [{"env": [value]}]}]))
    return value, secret


@given(planted_texts(), planted_data())
def test_no_planted_secret_survives_in_any_file(
    tmp_path_factory: pytest.TempPathFactory, text: tuple[str, str], data: tuple[Any, str]
) -> None:
    def read() -> Any:
        yield CollectedFile("logs/head.log", text[0], lacks=f"refused: {text[0]}")
        yield CollectedFile("objects.json", [data[0]])
        raise ValueError(text[0])

    bundle = collect("dev", [BundlePart("all", read)], Redaction(ACCOUNT), lambda _: None)
    assert set(bundle.files) == {"logs/head.log", "objects.json"}
    archive = tmp_path_factory.mktemp("bundle") / "b.tar.gz"
    write(bundle, archive)
    with tarfile.open(archive) as opened:
        files = {each.name: opened.extractfile(each).read().decode() for each in opened}  # type: ignore[union-attr]
    assert len(files) == 3
    for name, content in files.items():
        assert text[1] not in content, name
        assert data[1] not in content, name


@pytest.mark.parametrize(
    "harmless",
    [
        "public.ecr.aws/docker/library/python@sha256:" + "0a" * 32,
        "commit 011ca927123e02b35a399935bbb3ab1905fe33c7",
        "automountServiceAccountToken: false",
        "2026-11-02 10:15:00 [rayml-head-x7k2p] step=10 loss=0.25",
        "i-0123456789abcdef0 at 10.1.2.3, epoch 1762078500000",
        "the token has expired: log in again",
    ],
)
def test_what_an_analysis_needs_stays(harmless: str) -> None:
    assert Redaction(ACCOUNT).text(harmless) == harmless


def test_names_of_secrets_stay_readable() -> None:
    pod = {"secretName": "registry", "valueFrom": {"secretKeyRef": {"name": "wandb", "key": "api"}}}
    assert Redaction(ACCOUNT).data(pod) == pod
    assert Redaction(ACCOUNT).data({"name": "EPOCHS", "value": "3"}) == {"name": "EPOCHS", "value": "3"}
    assert Redaction(ACCOUNT).text("HF_TOKEN=abc") == f"HF_TOKEN={REDACTED}"


def test_whole_value_of_a_jobs_own_variable_goes_and_its_name_stays() -> None:
    arguments = ["--run=train", "--variable=TEXT=first\nsecond line", "--entrypoint=true"]
    redacted = Redaction("111122223333").data({"args": arguments})
    assert redacted == {"args": ["--run=train", "--variable=TEXT=[redacted]", "--entrypoint=true"]}


def test_each_account_has_one_pseudonym_everywhere() -> None:
    redaction = Redaction(ACCOUNT)
    first = redaction.text(f"arn:aws:iam::{OTHER}:role/x in {ACCOUNT}")
    assert first == "arn:aws:iam::account-2:role/x in account-1"
    assert redaction.data({OTHER: [ACCOUNT, int(OTHER)]}) == {"account-2": ["account-1", "account-2"]}
    assert redaction.text(f"assets{ACCOUNT}x") == "assetsaccount-1x"
    kept = Redaction(ACCOUNT, keep_account_ids=True)
    assert kept.data({"Arn": f"arn:aws:iam::{OTHER}:role/x"}) == {"Arn": f"arn:aws:iam::{OTHER}:role/x"}
    assert kept.text(f"{ACCOUNT} HF_TOKEN=abc") == f"{ACCOUNT} HF_TOKEN={REDACTED}"


def test_a_file_that_is_too_large_is_cut_or_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ops.support.bundle.FILE_BYTES", 10)
    monkeypatch.setattr("ops.support.bundle.ALL_BYTES", 25)
    found = [
        CollectedFile("a.log", "0123456789abcdef"),
        CollectedFile("b.json", {"long": "x" * 20}),
        CollectedFile("c.log", "c" * 10),
        CollectedFile("d.log", "d" * 10),
    ]
    bundle = collect("dev", [BundlePart("all", lambda: iter(found))], Redaction(ACCOUNT), lambda _: None)
    assert bundle.files == {"a.log": b"6789abcdef", "c.log": b"c" * 10}
    assert [each["part"] for each in bundle.missing] == ["a.log", "b.json", "d.log"]
    assert bundle.missing[0]["reason"] == "only the last 10 bytes"
    assert bundle.missing[2]["reason"] == "the bundle would be larger than 25 bytes"


def test_part_that_fails_costs_only_itself() -> None:
    def broken() -> Any:
        yield CollectedFile("first.json", {"read": True})
        raise RuntimeError("no route")

    later = BundlePart("later", lambda: iter([CollectedFile("later.json", {})]))
    said: list[str] = []
    bundle = collect("dev", [BundlePart("broken", broken), later], Redaction(ACCOUNT), said.append)
    assert list(bundle.files) == ["first.json", "later.json"]
    assert bundle.missing == [{"part": "broken", "reason": "RuntimeError: no route"}]
    assert said == ["broken", "later"]


def test_archive_is_private_and_never_replaces_a_file(tmp_path: Path) -> None:
    bundle = collect(
        "dev", [BundlePart("a", lambda: iter([CollectedFile("a.json", {"x": 1})]))], Redaction(ACCOUNT), lambda _: None
    )
    write(bundle, tmp_path / "b.tar.gz")
    assert (tmp_path / "b.tar.gz").stat().st_mode & 0o777 == 0o600
    with tarfile.open(tmp_path / "b.tar.gz") as archive:
        assert archive.getnames() == [f"{bundle.name}/manifest.json", f"{bundle.name}/a.json"]
        manifest = archive.extractfile(f"{bundle.name}/manifest.json")
        assert manifest
        assert json.load(manifest)["files"] == [{"file": "a.json", "bytes": len(bundle.files["a.json"])}]
    with pytest.raises(FileExistsError):
        write(bundle, tmp_path / "b.tar.gz")
