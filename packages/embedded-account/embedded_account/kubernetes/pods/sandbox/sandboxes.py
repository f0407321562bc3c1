"""Create the sandboxes of one control plane's pods."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from embedded_account.kubernetes.api import Object
from embedded_account.kubernetes.pods.programs import RealRay, ray_of
from embedded_account.kubernetes.pods.references import ContainerConfigError
from embedded_account.kubernetes.pods.sandbox.hosts import Hosts
from embedded_account.kubernetes.pods.sandbox.network import PodNetwork
from embedded_account.kubernetes.pods.sandbox.pause import Mount
from embedded_account.kubernetes.pods.sandbox.pod import Sandbox


class Sandboxes:
    """The network that pods share, the names in it, and the files that every pod gets."""

    def __init__(
        self, directory: Path, *, service_ip: str, api_port: int, aws_port: int | None, rays: Sequence[RealRay]
    ) -> None:
        """Create the network, as `PodNetwork` does. `rays` have the programs of the pods' images."""
        self._network = PodNetwork(service_ip=service_ip, api_port=api_port, aws_port=aws_port)
        self._rays = rays
        self.claims = directory / "claims"
        """The folders of persistent volume claims, one each; they outlive the pods."""
        self._files = directory / "data" / "etc"
        self._hosts = Hosts(self._files / "hosts", service_ip=service_ip)
        self._resolver = self._files / "resolv.conf"
        self._resolver.write_text("# names are in /etc/hosts\n")

    def update(self, services: Iterable[Object], pods: Iterable[Object]) -> None:
        """Update the names to the current services and pods."""
        self._hosts.update(services, pods)

    def make(self, pod: Object, directory: Path, address: str, mounts: Sequence[Mount]) -> Sandbox:
        """Create a pod's sandbox. Raises ContainerConfigError."""
        ray = ray_of(self._rays, pod["spec"])
        if not (ray.environment / "bin").is_dir():
            raise ContainerConfigError(
                f"{ray.environment} is empty, and pods of {ray.image} run what is there. Fix: install Ray there"
            )
        # A login shell reads this machine's profile, which sets its own PATH; an image's profile would set the image's.
        profile = directory / "profile"
        directory.mkdir(parents=True, exist_ok=True)
        profile.write_text(f"export PATH={ray.search_path}\n")
        own = [
            Mount("/etc/hosts", str(self._hosts.of(pod["metadata"]["namespace"]))),
            Mount("/etc/resolv.conf", str(self._resolver)),
            Mount("/etc/profile", str(profile)),
        ]
        # A container's own folders where its pod mounts nothing; /dev/shm has a container runtime's default size.
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
            path=ray.search_path,
        )
