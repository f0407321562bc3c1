"""`ops job submit --pip FILE`: what reaches Ray of a requirements file, and one message for each file that may not."""

from pathlib import Path
from typing import Final

import pytest

import config
from config.rules.image import RAY_IMAGE, requirements
from ops.jobs.packing import EntryError
from ops.jobs.pip import packages
from tests.unit.ops.jobs.test_job import ops
from tests.unit.ops.jobs.test_routes import ROUTES, Submissions, submissions
from tests.unit.support.fake_apis import Apis

DEV: Final = config.load("dev")
HASHES: Final = f"--hash=sha256:{'a' * 64} --hash=sha256:{'b' * 64}"
LOCK: Final = f"""# made by uv pip compile
--index-url https://pypi.example.com/simple
einops==0.8.1 \\
    --hash=sha256:{"a" * 64} \\
    --hash=sha256:{"b" * 64}
    # via -r requirements.in
Tri_ton[x,y]==3.0 ; python_version < '3.11' {HASHES}
"""
LINES: Final = [
    "--index-url https://pypi.example.com/simple",
    "--only-binary :all:",
    f"einops==0.8.1 {HASHES}",
    f"Tri_ton[x,y]==3.0 ; python_version < '3.11' {HASHES}",
]

__all__ = ["submissions"]


def written(folder: Path, text: str) -> Path:
    (folder / "requirements.txt").write_text(text)
    return folder / "requirements.txt"


def a_line_of_the_image(name: str) -> str:
    """Return the pinned requirement of a package that the image has."""
    return next(
        each
        for _, each, _ in requirements((RAY_IMAGE / "requirements.txt").read_text())
        if each.startswith(f"{name}==")
    )


@pytest.mark.parametrize("route", [route for route in ROUTES if route != "pytorchjob"])
def test_lines_reach_ray_with_one_line_for_each_package(submissions: Submissions, route: str, tmp_path: Path) -> None:
    job = submissions.submit(route, "--pip", str(written(tmp_path, LOCK)), "--", "true")
    assert job.pip == LINES


def test_packages_that_the_image_has_are_left_out(tmp_path: Path) -> None:
    text = f"{a_line_of_the_image('numpy')} {HASHES}\neinops==0.8.1 {HASHES}\n"
    assert packages(written(tmp_path, text), DEV) == ["--only-binary :all:", f"einops==0.8.1 {HASHES}"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("einops>=0.8\n", ":1 --pip: 'einops>=0.8' is invalid: it is not pinned. Allowed: name==version --hash="),
        ("\neinops==0.8.1\n", ":2 --pip: 'einops==0.8.1' is invalid: its sha256 hashes are missing or incomplete."),
        (f"einops==0.8.1 {HASHES}\neinops==0.8.2 {HASHES}\n", ":2 --pip: 'einops==0.8.2' is invalid: line 1 names"),
        (f"numpy==9.0 {HASHES}\n", ":1 --pip: 'numpy==9.0' is invalid: the image has numpy "),
        (f"Ray==2.43.0 {HASHES}\n", "is invalid: Ray is the image's. Allowed: other packages. Fix: delete the line"),
        (f"ray[tune]==2.42.1 {HASHES}\n", "is invalid: Ray is the image's."),
        ("--extra-index-url https://a.example\n", "'--extra-index-url' is invalid: this option is not for a job."),
        ("--index-url http://a.example\n", "'http://a.example' is invalid: it is no address with TLS."),
        ("--index-url https://a.example\n--index-url https://b.example\n", "'--index-url' is invalid: it is there twi"),
        ("-r other.txt\n", "'-r other.txt' is invalid: it is not pinned."),
        ("./wheel.whl\n", "'./wheel.whl' is invalid: it is not pinned."),
        ("# nothing\n", "names no package that the image lacks. Fix: leave --pip out"),
        ("".join(f"p{n}==1 {HASHES}\n" for n in range(1500)), "bytes. Allowed: 200,000. Fix: use image.pip"),
    ],
)
def test_each_wrong_file_is_one_message_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(EntryError) as raised:
        packages(written(tmp_path, text), DEV)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_password_of_an_index_is_refused_and_not_shown(tmp_path: Path) -> None:
    with pytest.raises(EntryError, match="it contains a password") as raised:
        packages(written(tmp_path, f"--index-url https://me:s3cret@pypi.example.com\neinops==0.8.1 {HASHES}\n"), DEV)
    assert "s3cret" not in str(raised.value)


def test_closed_network_needs_an_index_of_its_own(tmp_path: Path) -> None:
    closed = config.load("closed")
    with pytest.raises(EntryError, match="names no index, and a closed network has no way to the public one"):
        packages(written(tmp_path, f"einops==0.8.1 {HASHES}\n"), closed)
    assert packages(written(tmp_path, LOCK), closed) == LINES


def test_existing_image_decides_nothing_but_ray(tmp_path: Path) -> None:
    """Its packages are unknown here."""
    existing = config.load("closed")
    assert not existing.image.built
    text = f"--index-url https://pypi.example.com/simple\nnumpy==9.0 {HASHES}\n"
    assert packages(written(tmp_path, text), existing)[-1] == f"numpy==9.0 {HASHES}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--pip", "/nowhere.txt"), "--pip: '/nowhere.txt' cannot be read: No such file or directory. Fix: name a "),
        (("--as", "pytorchjob", "--pip", "x.txt"), "--pip is invalid with --as pytorchjob: only Ray installs packages"),
    ],
)
def test_bad_input_is_one_message_and_nobody_is_asked(apis: Apis, words: tuple[str, ...], message: str) -> None:
    result = ops("submit", *words, "--", "true")
    assert result.exit_code == 2
    assert message in result.stderr
    assert apis.tokens == []
