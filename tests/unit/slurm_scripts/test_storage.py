"""FSx for Lustre and S3 on a node."""

import pytest

from tests.unit.slurm_scripts.node import PARAMETERS, Node

DNS = PARAMETERS["fsx_dns_name"]
UNIT = "etc/systemd/system/mount-s3.service"


def test_api_way_waits_for_the_mount_that_hyperpod_makes(node: Node) -> None:
    assert "/fsx is mounted and writable" in node.succeed("mount_fsx.sh")
    assert node.asked == []


def test_file_system_that_hyperpod_does_not_mount_fails_with_advice(node: Node) -> None:
    (node.root / "mounted").unlink()
    assert "/fsx is not mounted after 10s. Allowed: a group with FsxLustreConfig" in node.refuse("mount_fsx.sh")


def test_guides_way_mounts_the_file_system_of_the_parameters_and_keeps_it_in_fstab(guide_node: Node) -> None:
    guide_node.succeed("mount_fsx.sh")
    [entry] = guide_node.read("etc/fstab").splitlines()
    assert entry.startswith(f"{DNS}@tcp:/abcdefgh /fsx lustre noatime,flock,_netdev,")
    modules = ["modprobe lnet", "modprobe lustre", "lctl network up"]
    assert guide_node.asked == ["systemctl daemon-reload", *modules, "mount /fsx"]


@pytest.mark.parametrize(
    ("program", "body", "message"),
    [
        ("modprobe", "[[ $1 != lnet ]]", "modprobe lnet failed"),
        ("modprobe", "[[ $1 != lustre ]]", "modprobe lustre failed"),
        ("lctl", "exit 1", "lctl network up failed"),
    ],
)
def test_kernel_without_lustre_is_refused_before_the_mount(
    guide_node: Node, program: str, body: str, message: str
) -> None:
    """base-config's mount_fsx.sh loads both modules and starts LNet first, and ends if it cannot."""
    guide_node.program(program, body)
    said = guide_node.refuse("mount_fsx.sh")
    assert message in said
    assert "Fix: " in said
    assert "mount /fsx" not in guide_node.asked


def test_fstab_gets_the_new_file_system_in_place_of_the_old(guide_node: Node) -> None:
    guide_node.write("etc/fstab", "LABEL=root / ext4\nfs-old@tcp:/old /fsx lustre noatime 0 0\n")
    guide_node.succeed("mount_fsx.sh")
    root, fsx = guide_node.read("etc/fstab").splitlines()
    assert (root, fsx.split("@")[0]) == ("LABEL=root / ext4", DNS)


def test_mount_is_tried_until_the_wait_is_over_and_then_says_which_ports_to_open(guide_node: Node) -> None:
    guide_node.program("mount", "exit 32")
    said = guide_node.refuse("mount_fsx.sh")
    assert f"{DNS} cannot be mounted at /fsx within 10s. Fix: open TCP 988 and 1018-1023" in said
    assert guide_node.asked.count("mount /fsx") == 3


def test_attempts_that_take_long_count_for_the_wait(guide_node: Node) -> None:
    """A mount of a file system whose ports are closed takes minutes to fail."""
    guide_node.environment["SECONDS_FOR_MOUNT"] = "1"
    guide_node.program("mount", "/bin/sleep 2; exit 32")
    guide_node.refuse("mount_fsx.sh")
    assert guide_node.asked.count("mount /fsx") == 1


def test_file_system_that_answers_after_four_minutes_is_mounted(guide_node: Node) -> None:
    """base-config ends with an error after 25 s: five attempts, and 5 s after each."""
    guide_node.environment["SECONDS_FOR_MOUNT"] = ""
    guide_node.program("mount", '(($(grep -c "^mount" "$ROOT/asked") > 48)) || exit 32; echo mounted >"$ROOT/mounted"')
    guide_node.succeed("mount_fsx.sh")


@pytest.mark.parametrize("key", ["fsx_dns_name", "fsx_mountname"])
def test_parameters_with_half_a_file_system_are_refused(guide_node: Node, key: str) -> None:
    guide_node.parameters(**{key: ""})
    assert f"provisioning_parameters.json {key}: '' is invalid: it is missing" in guide_node.refuse("mount_fsx.sh")


def test_parameters_without_a_file_system_are_refused(guide_node: Node) -> None:
    guide_node.parameters(fsx_dns_name="", fsx_mountname=None)
    assert "has no fsx_dns_name and no fsx_mountname" in guide_node.refuse("mount_fsx.sh")


def test_file_system_that_cannot_be_written_is_refused(node: Node) -> None:
    node.program("touch", "exit 1")
    assert "/fsx is mounted, but cannot be written" in node.refuse("mount_fsx.sh")


def test_no_bucket_is_mounted_unless_the_options_name_one(node: Node) -> None:
    assert "no bucket is mounted" in node.succeed("mount_s3.sh")
    assert node.asked == []


def test_bucket_is_mounted_read_only_by_systemd(node: Node) -> None:
    node.option("S3_BUCKET", "sagemaker-data")
    node.succeed("mount_s3.sh")
    command = "ExecStart=/usr/bin/mount-s3 --read-only --allow-other sagemaker-data /mnt/s3"
    assert command in node.read(UNIT).splitlines()
    assert [line for line in node.asked if line.startswith("systemctl")] == [
        "systemctl daemon-reload",
        "systemctl enable mount-s3",
        "systemctl restart mount-s3",
    ]


def test_writing_is_asked_for_and_never_includes_deletion(node: Node) -> None:
    node.option("S3_BUCKET", "sagemaker-data")
    node.option("S3_WRITE", "true")
    node.succeed("mount_s3.sh")
    assert "mount-s3 --allow-overwrite --allow-other" in node.read(UNIT)
    assert "--allow-delete" not in node.read(UNIT)


def test_mountpoint_has_a_version_and_a_verified_signature(node: Node) -> None:
    node.option("S3_BUCKET", "sagemaker-data")
    node.succeed("mount_s3.sh")
    fetched = [line.split()[-1] for line in node.asked if line.startswith("curl")]
    release = "https://s3.amazonaws.com/mountpoint-s3-release"
    package = f"{release}/1.21.0/x86_64/mount-s3-1.21.0-x86_64.deb"
    assert fetched == [package, f"{package}.asc", f"{release}/public_keys/KEYS"]
    [install] = [line for line in node.asked if line.startswith("apt-get")]
    assert install.startswith("apt-get -o DPkg::Lock::Timeout=300 install -y /tmp/")


@pytest.mark.parametrize(
    "answer", ["", "[GNUPG:] BADSIG 673FE4061506BB469A0EF857BE397A52B086DA5A", "[GNUPG:] VALIDSIG B"]
)
def test_package_with_another_signature_is_not_installed(node: Node, answer: str) -> None:
    node.option("S3_BUCKET", "sagemaker-data")
    node.program("gpg", f"echo '{answer}'")
    assert "it is not installed" in node.refuse("mount_s3.sh")
    assert not [line for line in node.asked if line.startswith("apt-get")]


def test_package_beside_the_scripts_is_installed_without_the_internet(node: Node) -> None:
    node.option("S3_BUCKET", "sagemaker-data")
    (node.scripts / "mount-s3.deb").touch()
    node.succeed("mount_s3.sh")
    assert not [line for line in node.asked if line.startswith("curl")]


def test_bucket_that_the_role_must_not_read_fails_with_advice(node: Node) -> None:
    node.option("S3_BUCKET", "sagemaker-data")
    node.program("systemctl", "[[ $1 != restart ]]")
    assert "Fix: let the execution role list and read it" in node.refuse("mount_s3.sh")
