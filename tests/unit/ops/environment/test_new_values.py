"""`ops new` writes only values that AWS's rules and `ops check` accept, from options or from a person's answers."""

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner, Result

import config
from config.load import DIRECTORY_VARIABLE
from config.reading import strict_yaml
from ops.commands.whole import app
from ops.environment import new
from rehearsal.paths import REPOSITORY
from tests.unit.ops.environment.test_new import environments

__all__ = ["environments"]

ROLE: Final = "arn:aws:iam::111122223333:role"
GOOD: Final[dict[str, Sequence[str]]] = {
    "--account": ["111122223333"],
    "--region": ["us-west-2"],
    "--zone": ["usw2-az2", "usw2-az3"],
    "--admin": [f"{ROLE}/Admin"],
    "--cidr": ["203.0.113.0/24"],
}
WRITTEN: Final[list[tuple[str, list[str], list[str] | str, str]]] = [
    ("--account", ["012345678901"], "012345678901", "an account may begin with 0, and stays text"),
    ("--account", ["000000123456"], "000000123456", "YAML 1.1 reads it as octal without quotes"),
    ("--zone", ["usw2-az3", "usw2-az1"], ["usw2-az3", "usw2-az1"], "nodes are in the first: no sorting"),
    ("--zone", ["usw2-az1", "usw2-az2", "usw2-az3"], ["usw2-az1", "usw2-az2", "usw2-az3"], "three zones"),
    ("--admin", [f"{ROLE}/Admin", f"{ROLE}/Ops"], [f"{ROLE}/Admin", f"{ROLE}/Ops"], "two roles"),
    ("--admin", [f"{ROLE}/teams/ml/Admin"], [f"{ROLE}/teams/ml/Admin"], "access entries keep a role's path"),
    ("--admin", [f"{ROLE}/a+b=c,d.e@f_g-h"], [f"{ROLE}/a+b=c,d.e@f_g-h"], "all characters of IAM's names"),
    ("--admin", [f"{ROLE}/{'a' * 64}"], [f"{ROLE}/{'a' * 64}"], "IAM's longest name"),
    ("--cidr", ["203.0.113.7/32"], ["203.0.113.7/32"], "one address"),
    ("--cidr", ["203.0.113.0/24", "198.51.100.7/32"], ["203.0.113.0/24", "198.51.100.7/32"], "two networks"),
    ("--cidr", ["203.0.113.7"], ["203.0.113.7/32"], "EKS needs a length"),
    ("--cidr", ["203.0.113.0/255.255.255.0"], ["203.0.113.0/24"], "EKS takes no netmask"),
    ("--cidr", ["203.0.113.0/0.0.0.255"], ["203.0.113.0/24"], "EKS takes no hostmask"),
    ("--cidr", ["203.0.113.0/024"], ["203.0.113.0/24"], "Python takes a length with a zero"),
    ("--cidr", ["203.0.113.0/24", "203.0.113.0/24"], ["203.0.113.0/24"], "each network once"),
]
ACCOUNTS: Final = {
    "as the console shows it": "1111-2222-3333",
    "spaces": "1111 2222 3333",
    "blank before": " 111122223333",
    "newline behind: $ matches before it": "111122223333\n",
    "quoted twice": '"111122223333"',
    "non-breaking space": "111122223333\u00a0",
    "zero-width space": "111122\u200b223333",
    "eleven digits: a spreadsheet removed a zero": "11112222333",
    "thirteen digits": "1111222233334",
    "empty: an unset variable": "",
    "blank": "   ",
    "full-width digits: \\d matches them": "\uff11\uff11\uff11\uff11\uff12\uff12\uff12\uff12\uff13\uff13\uff13\uff13",
    "arabic digits": "١١١١٢٢٢٢٣٣٣٣",
    "superscripts: str.isdigit accepts them": "¹¹¹¹²²²²³³³³",
    "underscores: int accepts them": "111_122_223_333",
    "sign: int accepts it": "+11112222333",
    "float": "111122223333.0",
    "exponent": "1.11122E+11",
    "hexadecimal": "0x19df4f5a5c",
    "letter": "11112222333O",
    "arn": "arn:aws:iam::111122223333:root",
    "unexpanded variable": "${YOUR_ACCOUNT}",
    "YAML": '111122223333"\nprotect: true #',
    "control character": "111122223333\x01",
    "no UTF-8": "\udcff",
}
REGIONS: Final = {
    "upper case": "US-WEST-2",
    "blank behind": "us-west-2 ",
    "unknown": "us-west-9",
    "without a number": "us-west",
    "a zone's name": "us-west-2a",
    "a zone's id": "usw2-az2",
    "a local zone": "us-west-2-lax-1",
    "a place": "Oregon",
    "botocore's pseudo region": "aws-global",
    "empty": "",
    "another partition, GovCloud": "us-gov-west-1",
    "another partition, China": "cn-north-1",
    "another partition, not public": "us-iso-east-1",
    "non-breaking hyphens": "us\u2011west\u20112",
    "a cyrillic letter": "us-w\u0435st-2",
    "YAML": "us-west-2\nprotect: true",
}
ZONES: Final = {
    "names, which differ by account": ["us-west-2a", "us-west-2b"],
    "one name": ["usw2-az2", "us-west-2b"],
    "another region's": ["use1-az1", "use1-az2"],
    "one of another region": ["usw2-az2", "euw1-az1"],
    "no region's": ["usw21-az1", "usw2-az2"],
    "us-west-1's": ["usw1-az1", "usw1-az3"],
    "us-west-2 has four": ["usw2-az9", "usw2-az2"],
    "number zero": ["usw2-az0", "usw2-az2"],
    "upper case": ["USW2-AZ2", "usw2-az3"],
    "twice: EKS needs two": ["usw2-az2", "usw2-az2"],
    "one: EKS needs two": ["usw2-az2"],
    "four: the VPC has room for three": ["usw2-az1", "usw2-az2", "usw2-az3", "usw2-az4"],
    "a comma": ["usw2-az2,usw2-az3"],
    "a local zone, where EKS has no subnets": ["usw2-lax1-az1", "usw2-az2"],
    "a wavelength zone": ["usw2-wl1-las1", "usw2-az2"],
    "empty": [""],
    "YAML": ["usw2-az2]", "usw2-az3"],
}
ADMINS: Final = {
    "a name of 65 characters": f"{ROLE}/{'a' * 65}",
    "a session: get-caller-identity prints it": "arn:aws:sts::111122223333:assumed-role/Admin/ada",
    "a federated user": "arn:aws:sts::111122223333:federated-user/ada",
    "a user": "arn:aws:iam::111122223333:user/ada",
    "the root user": "arn:aws:iam::111122223333:root",
    "a group is no principal": "arn:aws:iam::111122223333:group/admins",
    "an instance profile is none": "arn:aws:iam::111122223333:instance-profile/Admin",
    "a policy is none": "arn:aws:iam::aws:policy/AdministratorAccess",
    "another partition": "arn:aws-cn:iam::111122223333:role/Admin",
    "no partition": "arn:amazon:iam::111122223333:role/Admin",
    "eleven digits": "arn:aws:iam::11112222333:role/Admin",
    "no account": "arn:aws:iam:::role/Admin",
    "with a region": "arn:aws:iam:us-west-2:111122223333:role/Admin",
    "a name": "Admin",
    "an account, as in a trust policy": "111122223333",
    "everybody": "*",
    "every role": f"{ROLE}/*",
    "no name": f"{ROLE}/",
    "slash behind": f"{ROLE}/Admin/",
    "two slashes": f"{ROLE}//Admin",
    "no slash": f"{ROLE}Admin",
    "upper case": "ARN:AWS:IAM::111122223333:ROLE/Admin",
    "blank behind": f"{ROLE}/Admin ",
    "newline behind": f"{ROLE}/Admin\n",
    "a letter outside ASCII: \\w matches it": f"{ROLE}/Admín",
    "two in one: a name has no colon": f"{ROLE}/Admin,{ROLE}/Ops",
    "empty": "",
    "unexpanded variable": "${YOUR_ROLE}",
    "YAML": f'{ROLE}/A"]\n  x: ["',
}
CIDRS: Final = {
    "everybody": ["0.0.0.0/0"],
    "everybody in two halves": ["0.0.0.0/1", "128.0.0.0/1"],
    "everybody, with an address": ["203.0.113.7/0"],
    "host bits": ["203.0.113.7/24"],
    "length 33": ["203.0.113.0/33"],
    "length -1": ["203.0.113.0/-1"],
    "no length": ["203.0.113.0/"],
    "leading zeros: octal or not": ["203.0.113.007/32"],
    "three numbers": ["203.0.113/24"],
    "number 256": ["203.0.256.0/24"],
    "IPv6": ["2001:db8::/32"],
    "IPv6, everybody": ["::/0"],
    "IPv4 in IPv6": ["::ffff:203.0.113.0/120"],
    "multicast": ["224.0.0.0/4"],
    "broadcast": ["255.255.255.255/32"],
    "comma": ["203.0.113.0/24,198.51.100.0/24"],
    "blank behind": ["203.0.113.0/24 "],
    "blank within": ["203.0.113.0 / 24"],
    "full-width digits": ["\uff12\uff10\uff13.0.113.0/24"],
    "number: ip_address takes it": ["3405803776"],
    "a host's name": ["vpn.example.com"],
    "a range": ["203.0.113.0-203.0.113.255"],
    "empty: EKS's default would be everybody": [""],
    "unexpanded variable": ["${YOUR_NETWORK}"],
    "YAML": ['203.0.113.0/24"]\nprotect: true #'],
}
REFUSED: Final = [
    *(pytest.param("--account", [value], id=f"account: {why}") for why, value in ACCOUNTS.items()),
    *(pytest.param("--region", [value], id=f"region: {why}") for why, value in REGIONS.items()),
    *(pytest.param("--zone", values, id=f"zone: {why}") for why, values in ZONES.items()),
    *(pytest.param("--admin", [value], id=f"admin: {why}") for why, value in ADMINS.items()),
    pytest.param("--admin", [f"{ROLE}/Admin", f"{ROLE}/Admin"], id="admin: a role has one access entry"),
    *(pytest.param("--cidr", values, id=f"cidr: {why}") for why, values in CIDRS.items()),
]


def typed(name: str, given: dict[str, Sequence[str]], *more: str) -> Result:
    """Run `ops new` with the values of each option, and without a terminal."""
    options = [f"{option}={value}" for option, values in given.items() for value in values]
    return CliRunner().invoke(app, ["new", name, *options, *more])


@pytest.mark.parametrize(("option", "values", "expected", "why"), WRITTEN, ids=[case[3] for case in WRITTEN])
def test_a_value_that_aws_takes_is_written_in_the_form_that_aws_takes(
    environments: Path, option: str, values: list[str], expected: str | list[str], why: str
) -> None:
    assert typed("trial", {**GOOD, option: values}).exit_code == 0
    document = strict_yaml.read(environments / "trial.yaml").values
    [key] = [key for key, each in new.INPUTS.items() if each.option == option]
    assert new.value_of(document, key) == expected
    assert not config.examine("trial", environments).errors


@pytest.mark.parametrize(("option", "values"), REFUSED)
def test_a_value_that_aws_refuses_is_named_with_its_option_and_nothing_is_written(
    environments: Path, option: str, values: list[str]
) -> None:
    result = typed("trial", {**GOOD, option: values})
    assert result.exit_code == 2, result.output
    assert f"error: {option}: " in result.stderr
    assert "is invalid: " in result.stderr
    assert "Allowed: " in result.stderr
    assert "Fix: " in result.stderr
    assert not list(environments.iterdir())


def test_a_region_that_is_not_the_zones_names_both(environments: Path) -> None:
    said = typed("trial", {**GOOD, "--region": ["eu-west-1"]}).stderr
    assert "--zone: 'usw2-az2' is invalid: it is a zone of us-west-2, and the region is eu-west-1" in said


def test_a_zone_that_takes_no_control_plane_of_eks_is_refused(environments: Path) -> None:
    result = typed("trial", {**GOOD, "--region": ["us-east-1"], "--zone": ["use1-az3", "use1-az1"]})
    assert "--zone: 'use1-az3' is invalid: it supports no EKS control plane" in result.stderr
    assert (
        typed("trial", {**GOOD, "--zone": ["usw2-az2"], "--admin": [], "--cidr": []}, "--like", "slurm").exit_code == 0
    )


def test_all_mistakes_are_reported_at_once(environments: Path) -> None:
    said = typed("trial", {"--account": ["1"], "--region": ["x"], "--admin": ["a"], "--cidr": ["b"]}).stderr
    assert [line.split()[1] for line in said.splitlines()] == ["--account:", "--region:", "--admin:", "--cidr:"]


def test_ops_import_refuses_the_same_values(environments: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("import") / "cluster-config.json"
    file.write_text('[{"InstanceGroupName": "g", "InstanceType": "ml.g5.2xlarge", "InstanceCount": 2}]')
    result = CliRunner().invoke(app, ["import", str(file), "--name", "mine", "--account", "1"])
    assert result.exit_code == 2
    assert "--account: '1' is invalid: it does not have twelve digits" in result.stderr
    assert not list(environments.iterdir())


ELSEWHERE: Final[dict[str, Sequence[str]]] = {
    **GOOD,
    "--account": ["444455556666"],
    "--region": ["us-east-2"],
    "--zone": ["use2-az1", "use2-az2"],
    "--admin": ["arn:aws:iam::444455556666:role/aws-reserved/sso.amazonaws.com/AWSReservedSSO_Admin_0123456789abcdef"],
}
LACKING: Final = {"existing-eks": ("--zone", "--cidr"), "existing-vpc": ("--zone",), "slurm": ("--admin", "--cidr")}


@pytest.mark.parametrize("given", [GOOD, ELSEWHERE], ids=["us-west-2", "us-east-2"])
@pytest.mark.parametrize("like", [None, *config.examples()])
def test_what_is_written_with_all_values_has_no_error(
    environments: Path, like: str | None, given: dict[str, Sequence[str]]
) -> None:
    options = {option: values for option, values in given.items() if option not in LACKING.get(str(like), ())}
    result = typed("trial", options, *(["--like", like] if like else []))
    assert result.exit_code == 0, result.output
    file = environments / "trial.yaml"
    # An existing VPC is described in the file.
    for n in (1, 2):
        file.write_text(file.read_text().replace(f"${{ZONE_ID_{n}}}", f"use2-az{n}"))
    examined = config.examine("trial", environments)
    assert not list(map(str, examined.errors))
    assert examined.environment
    assert (examined.environment.account, [examined.environment.region]) == (given["--account"][0], given["--region"])
    assert list(examined.environment.access.admins) == options.get("--admin", [])


@pytest.mark.parametrize(
    ("like", "option"), [(like, option) for like, options in LACKING.items() for option in options]
)
def test_a_value_that_an_example_has_no_place_for_is_refused(environments: Path, like: str, option: str) -> None:
    result = typed("trial", {option: GOOD[option]}, "--like", like)
    assert result.exit_code == 2
    assert f"error: {option} is invalid: {like} " in result.stderr
    assert not list(environments.iterdir())


class Person:
    """Somebody who types `ops new trial` at a terminal, and one answer to each question."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.directory = directory
        self._screen, keyboard = pty.openpty()
        self._process = subprocess.Popen(
            # A shell's background job ignores interrupts, and so would its children.
            ["/usr/bin/env", "--default-signal=INT", sys.executable, "-m", "ops", "new", "trial", *arguments],
            cwd=REPOSITORY,
            env={**os.environ, DIRECTORY_VARIABLE: str(directory), "TERM": "xterm", "COLUMNS": "250"},
            stdin=keyboard,
            stdout=keyboard,
            stderr=keyboard,
            start_new_session=True,
        )
        os.close(keyboard)
        self.shown = ""
        self._interrupted = False

    def answers(self, *answers: str) -> int:
        """Answer the questions in order, `^C` by an interrupt; return the exit code."""
        left = list(answers)
        while chunk := self._read():
            self.shown += chunk
            if left and self.shown.rstrip().endswith("):"):
                self._type(left.pop(0))
        os.close(self._screen)
        assert not left, self.shown
        return self._process.wait(60)

    def _type(self, answer: str) -> None:
        if answer == "^C":
            self._interrupted = True
            self._process.send_signal(signal.SIGINT)
        else:
            self.shown += "\n"
            os.write(self._screen, f"{answer}\n".encode())

    def _read(self) -> str:
        # Python misses a signal just before it begins to read an answer, until the next one: a person presses again.
        for _ in range(12):
            if not self._interrupted or select.select([self._screen], [], [], 5)[0]:
                break
            self._process.send_signal(signal.SIGINT)
        else:
            pytest.fail(f"an interrupt has no effect: {self.shown}")
        try:
            return os.read(self._screen, 65536).decode(errors="replace")
        except OSError:  # Linux's end of a terminal
            return ""

    def file(self) -> Any:
        """Return the document that was written."""
        return strict_yaml.read(self.directory / "trial.yaml").values


ANSWERS: Final = (
    "444455556666",
    "us-east-2",
    "use2-az1, use2-az3",
    "arn:aws:iam::444455556666:role/Admin arn:aws:iam::444455556666:role/Ops",
    "203.0.113.0/24 198.51.100.7",
)


def test_a_person_is_asked_for_what_is_missing_and_the_file_has_no_error(tmp_path: Path) -> None:
    person = Person(tmp_path)
    assert person.answers(*ANSWERS) == 0, person.shown
    for example in ("111122223333", "us-west-2", "usw2-az2", f"{ROLE}/PlatformAdmin", "203.0.113.0/24"):
        assert f"such as {example}" in person.shown
    examined = config.examine("trial", tmp_path)
    assert not examined.errors
    assert isinstance(examined.environment, config.EksEnvironment)
    assert (examined.environment.account, examined.environment.network.zones) == (ANSWERS[0], ("use2-az1", "use2-az3"))
    assert list(examined.environment.access.admins) == ANSWERS[3].split()
    assert list(map(str, examined.environment.eks.public_access_cidrs)) == ["203.0.113.0/24", "198.51.100.7/32"]


def test_a_wrong_answer_is_explained_and_asked_again(tmp_path: Path) -> None:
    person = Person(tmp_path, "--region", "us-west-2")
    assert person.answers("1111-2222-3333", "111122223333", "use1-az1 usw2-az1", "usw2-az2 usw2-az1", "", "") == 0
    assert "--account: '1111-2222-3333' is invalid: it has the hyphens that the console shows" in person.shown
    assert "--zone: 'use1-az1' is invalid: it is a zone of us-east-1" in person.shown
    assert "fill in: ${ADMIN_ROLE_ARN}, ${YOUR_NETWORK}" in person.shown
    assert new.value_of(person.file(), "network.zones") == ["usw2-az2", "usw2-az1"]


def test_a_person_is_asked_only_for_what_the_example_takes(tmp_path: Path) -> None:
    person = Person(tmp_path, "--like", "existing-eks")
    assert person.answers("444455556666", "", ANSWERS[3]) == 0, person.shown
    assert not config.examine("trial", tmp_path).errors
    assert person.file()["account"] == "444455556666"


@pytest.mark.parametrize("answers", [["^C"], ["444455556666", "^C"], ["\x04"], [*ANSWERS[:4], "\x04"]])
def test_an_interrupt_or_the_end_of_input_writes_nothing(tmp_path: Path, answers: list[str]) -> None:
    person = Person(tmp_path)
    assert person.answers(*answers) == 130, person.shown
    assert "Traceback" not in person.shown
    assert not list(tmp_path.iterdir())


def test_a_wrong_option_ends_before_the_first_question(tmp_path: Path) -> None:
    person = Person(tmp_path, "--account", "1")
    assert person.answers() == 2
    assert "(Enter:" not in person.shown
    assert not list(tmp_path.iterdir())
