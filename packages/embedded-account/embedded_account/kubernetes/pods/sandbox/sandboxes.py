"""Makes the sandboxes of one control plane's pods."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from embedded_account.kubernetes.api import Object
from embedded_account.kubernetes.pods.sandbox.hosts import Hosts
from embedded_account.kubernetes.pods.sandbox.network import PodNetwork
from embedded_account.kubernetes.pods.sandbox.pause import Mount
from embedded_account.kubernetes.pods.sandbox.pod import Sandbox


class Sandboxes:
    """The network that pods share, the names in it, and the files that every pod gets."""

    def __init__(self, directory: Path, *, service_ip: str, api_port: int, search_path: str) -> None:
        """`search_path` is the PATH of every pod: the images' programs, as this machine has them."""
        self._network = PodNetwork(service_ip=service_ip, api_port=api_port)
        self._search_path = search_path
        self.claims = directory / "claims"
        """What persistent volume claims stand for: a folder each, which outlives the pods."""
        self._files = directory / "data" / "etc"
        self._hosts = Hosts(self._files / "hosts", service_ip=service_ip)
        # A login shell reads this machine's profile, which sets a PATH of its own: an image's would set the image's.
        self._profile = self._files / "profile"
        self._profile.write_text(f"export PATH={search_path}\n")
        self._resolver = self._files / "resolv.conf"
        self._resolver.write_text("# names are in /etc/hosts\n")

    def update(self, services: Iterable[Object], pods: Iterable[Object]) -> None:
        """Follow what services and pods there are."""
        self._hosts.update(services, pods)

    def make(self, pod: Object, directory: Path, address: str, mounts: Sequence[Mount]) -> Sandbox:
        """Make a pod's sandbox. Raises ContainerConfigError."""
        own = [
            Mount("/etc/hosts", str(self._hosts.of(pod["metadata"]["namespace"]))),
            Mount("/etc/resolv.conf", str(self._resolver)),
            Mount("/etc/profile", str(self._profile)),
        ]
        # What a container has of its own where its pod mounts nothing; /dev/shm is as small as a runtime makes it.
        scratch = directory / "ray"
        scratch.mkdir(parents=True, exist_ok=True)
        private = [Mount("/dev/shm", None, size="64m"), Mount("/tmp/ray", str(scratch))]  # noqa: S108 - a pod's
        taken = {mount.target for mount in mounts}
        own += [mount for mount in private if mount.target not in taken]
        name = pod["metadata"]["name"]
        return Sandbox(
            directory,
            name=name,
            address=address,
            mounts=[*own, *mounts],
            network=self._network,
            path=self._search_path,
        )
