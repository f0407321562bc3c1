"""The lifecycle scripts on a fake root: stand-ins for systemctl, mountpoint and modprobe record their calls."""

import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.lifecycle_scripts import put_program, run_script

SCRIPTS = Path(__file__).resolve().parents[2] / "lifecycle_scripts" / "eks"
CONFIG = "opt/sagemaker/containerd/config.toml"
OVERRIDE = "etc/systemd/system/containerd.service.d/10-data-on-volume.conf"


@dataclass
class Node:
    """A node before it joins: Amazon Linux 2023, data in the default places, the volume mounted."""

    root: Path
    scripts: Path
    programs: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, script: str = "on_create.sh") -> "subprocess.CompletedProcess[str]":
        waits = {"SECONDS_FOR_LOGS": "0", "SECONDS_FOR_VOLUME": "5"}
        variables = {"ROOT": str(self.root), **waits, **self.environment}
        return run_script(self.scripts / script, programs=self.programs, variables=variables)

    def program(self, name: str, body: str) -> None:
        put_program(self.programs, name, body)

    def add_gpu(self) -> None:
        self.write("usr/bin/nvidia-container-runtime", "").chmod(0o755)
        self.write("sys/bus/pci/devices/0000:10:1c.0/vendor", "0x10de\n")
        self.write("sys/bus/pci/devices/0000:10:1c.0/class", "0x030200\n")

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def read(self, path: str) -> str:
        return (self.root / path).read_text()

    @property
    def asked(self) -> list[str]:
        return self.read("asked").splitlines()

    @property
    def containerd(self) -> dict[str, Any]:
        return tomllib.loads(self.read(CONFIG))

    @property
    def runtimes(self) -> dict[str, Any]:
        runtimes: dict[str, Any] = self.containerd["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]
        return runtimes


@pytest.fixture
def node(tmp_path: Path) -> Node:
    (tmp_path / "programs").mkdir()
    shutil.copytree(SCRIPTS, tmp_path / "scripts")
    # S3 stores no file modes.
    for script in (tmp_path / "scripts").iterdir():
        script.chmod(0o644)
    node = Node(root=tmp_path / "root", scripts=tmp_path / "scripts", programs=tmp_path / "programs")
    node.write("etc/os-release", 'NAME="Amazon Linux"\nID="amzn"\nVERSION_ID="2023"\n')
    node.write("var/lib/containerd/io.containerd.content/pause", "image")
    node.write("var/lib/kubelet/pki/kubelet.crt", "certificate")
    node.write("var/lib/kubelet/.hidden", "kept")
    node.write("sys/bus/pci/devices/0000:00:05.0/vendor", "0x1d0f\n")
    node.write("sys/bus/pci/devices/0000:00:05.0/class", "0x020000\n")
    (node.root / "opt/sagemaker").mkdir(parents=True)
    node.program("mountpoint", "exit 0")
    node.program("modprobe", "exit 0")
    node.program("sync", "exit 0")
    node.program("sleep", "exit 0")
    node.program("systemctl", '[[ $1 != is-active ]] || exit "${UNITS_INACTIVE:-3}"')
    return node


def test_containerd_and_kubelet_data_lie_on_the_volume(node: Node) -> None:
    result = node.run()
    assert result.returncode == 0, result.stdout
    assert node.containerd["root"] == "/opt/sagemaker/containerd/data-root"
    assert node.read("opt/sagemaker/containerd/data-root/io.containerd.content/pause") == "image"
    assert (node.root / "var/lib/kubelet").readlink() == Path("/opt/sagemaker/kubelet")
    assert node.read("opt/sagemaker/kubelet/pki/kubelet.crt") == "certificate"
    assert node.read("opt/sagemaker/kubelet/.hidden") == "kept"


def test_containerd_is_started_with_the_config_of_the_volume(node: Node) -> None:
    node.run()
    assert f"ExecStart=/usr/bin/containerd --config /{CONFIG}" in node.read(OVERRIDE).splitlines()
    assert "systemctl daemon-reload" in node.asked


def test_gpu_node_runs_containers_with_the_nvidia_runtime(node: Node) -> None:
    node.add_gpu()
    node.run()
    assert node.runtimes["default_runtime_name"] == "nvidia"
    assert node.runtimes["runtimes"]["nvidia"]["options"]["BinaryName"] == "/usr/bin/nvidia-container-runtime"


def test_node_without_gpu_keeps_runc_though_the_image_brings_nvidia(node: Node) -> None:
    node.write("usr/bin/nvidia-container-runtime", "").chmod(0o755)
    node.run()
    assert node.runtimes["default_runtime_name"] == "runc"


def test_running_units_are_stopped_for_the_move_and_started_again(node: Node) -> None:
    node.environment["UNITS_INACTIVE"] = "0"
    node.run()
    assert [line for line in node.asked if " st" in line] == [
        "systemctl stop kubelet",
        "systemctl stop containerd",
        "systemctl start containerd",
        "systemctl start kubelet",
    ]


def test_units_that_do_not_run_are_not_started(node: Node) -> None:
    node.run()
    assert not [line for line in node.asked if " start" in line]


def test_second_run_changes_nothing(node: Node) -> None:
    node.run()
    node.write("opt/sagemaker/kubelet/pods", "running")
    node.write("opt/sagemaker/containerd/data-root/layer", "pulled")
    result = node.run()
    assert result.returncode == 0
    assert node.read("opt/sagemaker/kubelet/pods") == "running"
    assert node.read("opt/sagemaker/containerd/data-root/layer") == "pulled"


def test_data_of_the_system_before_a_software_update_is_removed(node: Node) -> None:
    node.write("opt/sagemaker/kubelet/old", "old")
    node.write("opt/sagemaker/containerd/data-root/old", "old")
    assert node.run().returncode == 0
    assert not (node.root / "opt/sagemaker/kubelet/old").exists()
    assert not (node.root / "opt/sagemaker/containerd/data-root/old").exists()


def test_run_that_ended_half_way_is_completed(node: Node) -> None:
    (node.root / "var/lib/kubelet").rename(node.root / "var/lib/kubelet.before")
    assert node.run().returncode == 0
    assert node.read("opt/sagemaker/kubelet/pki/kubelet.crt") == "certificate"
    assert not (node.root / "var/lib/kubelet.before").exists()


def test_log_shows_start_and_end(node: Node) -> None:
    printed = node.run().stdout
    log = node.read("var/log/provision/provisioning.log")
    assert log == printed
    assert "on_create: start" in log
    assert log.rstrip().endswith("on_create: done")


def test_missing_volume_fails_with_its_cause(node: Node) -> None:
    node.program("mountpoint", "exit 1")
    result = node.run()
    assert result.returncode == 1
    assert "/opt/sagemaker is not mounted after 5s: has the instance group an EbsVolumeConfig?" in result.stdout
    assert (node.root / "var/lib/kubelet").is_dir()


def test_failure_waits_until_the_logs_have_left_the_node(node: Node) -> None:
    node.program("mountpoint", "exit 1")
    node.environment["SECONDS_FOR_LOGS"] = "60"
    node.run()
    assert node.asked[-2:] == ["sync ", "sleep 60"]
    assert "FAILED" in node.read("var/log/provision/provisioning.log")


def test_missing_main_script_is_an_error(node: Node) -> None:
    (node.scripts / "on_create_main.sh").unlink()
    result = node.run()
    assert result.returncode == 1
    assert "on_create_main.sh is missing: upload the whole folder" in result.stdout


def test_other_operating_system_is_refused(node: Node) -> None:
    node.write("etc/os-release", 'ID="amzn"\nVERSION_ID="2"\n')
    result = node.run()
    assert result.returncode == 1
    assert "this is amzn 2; these scripts know Amazon Linux 2023 only" in result.stdout


def test_missing_lustre_module_is_only_a_warning(node: Node) -> None:
    node.program("modprobe", "exit 1")
    result = node.run()
    assert result.returncode == 0
    assert "warning: kernel module lustre could not be loaded" in result.stdout


EFA_CLIENT = "configure-efa-fsx-lustre-client"
SETUP = '#!/bin/bash\necho "efa setup" >>"$ROOT/asked"\n'


@pytest.fixture
def efa_node(node: Node) -> Node:
    """Return a node with an EFA interface, in an environment whose file system supports EFA."""
    (node.scripts / "settings").write_text("FSX_EFA=true\n")
    node.write("sys/class/infiniband/rdmap0s6", "")
    node.program("curl", "exit 1")
    return node


def test_lustre_is_set_up_for_efa_before_its_modules_are_loaded(efa_node: Node) -> None:
    efa_node.write(f"etc/eks/{EFA_CLIENT}/setup.sh", SETUP)
    result = efa_node.run()
    assert result.returncode == 0, result.stdout
    assert efa_node.asked.index("efa setup") < efa_node.asked.index("modprobe lnet")
    assert not [line for line in efa_node.asked if line.startswith("curl")]


def test_copy_beside_the_scripts_is_used_where_the_image_has_none(efa_node: Node) -> None:
    (efa_node.scripts / EFA_CLIENT).mkdir()
    (efa_node.scripts / EFA_CLIENT / "setup.sh").write_text(SETUP)
    efa_node.run()
    assert "efa setup" in efa_node.asked


def test_setup_is_fetched_where_there_is_no_copy(efa_node: Node) -> None:
    efa_node.program("curl", "exit 0")
    folder = f'"$ROOT/opt/{EFA_CLIENT}"'
    efa_node.program("unzip", f"mkdir -p {folder}\ncat >{folder}/setup.sh <<'END'\n{SETUP}END")
    result = efa_node.run()
    assert "efa setup" in efa_node.asked, result.stdout
    [curl] = [line for line in efa_node.asked if line.startswith("curl")]
    assert curl.endswith(f"https://docs.aws.amazon.com/fsx/latest/LustreGuide/samples/{EFA_CLIENT}.zip")


def test_node_whose_efa_setup_fails_joins_with_a_warning(efa_node: Node) -> None:
    result = efa_node.run()
    assert result.returncode == 0
    assert "warning: EFA could not be set up for Lustre, it uses TCP" in result.stdout
    assert "modprobe lustre" in efa_node.asked


def test_node_without_efa_interface_uses_tcp(efa_node: Node) -> None:
    (efa_node.root / "sys/class/infiniband/rdmap0s6").unlink()
    assert "this node has no EFA interface: Lustre uses TCP" in efa_node.run().stdout


def test_environment_without_efa_sets_nothing_up(node: Node) -> None:
    node.write("sys/class/infiniband/rdmap0s6", "")
    node.write(f"etc/eks/{EFA_CLIENT}/setup.sh", SETUP)
    assert "EFA" not in node.run().stdout
    assert "efa setup" not in node.asked


@pytest.mark.parametrize("script", sorted(SCRIPTS.iterdir()), ids=lambda path: path.name)
def test_script_is_what_a_node_can_run(script: Path) -> None:
    text = script.read_bytes()
    assert text.startswith(b"#!/bin/bash\n")
    assert b"\r" not in text
    assert b"\nset -euo pipefail\n" in text


@pytest.mark.parametrize("script", sorted(SCRIPTS.iterdir()), ids=lambda path: path.name)
def test_script_is_shellcheck_clean(script: Path) -> None:
    shellcheck = Path(sys.executable).with_name("shellcheck")
    result = subprocess.run([shellcheck, script], text=True, capture_output=True, check=False)
    assert result.returncode == 0, result.stdout
