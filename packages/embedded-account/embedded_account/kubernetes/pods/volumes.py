"""Provide the volumes of a pod whose program really runs as folders of this machine.

A pod in a sandbox has them mounted (`tree`). Otherwise nothing is mounted: in a container's arguments and variables
each mount path is replaced with a folder's path, and a program cannot find a mount path that is built into it. The
files of a ConfigMap or Secret stay as they were when the container started; the service account's token is renewed.
Modes, owners and sizes of files are not simulated.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from embedded_account.kubernetes.api import KubernetesClient, KubernetesClientError, Object
from embedded_account.kubernetes.pods.references import ContainerConfigError, content, field
from embedded_account.kubernetes.pods.sandbox.pause import Mount

TOKEN_MOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path

_MOUNT_FIELDS: Final = {"name", "mountPath", "readOnly"}

Files = Iterator[tuple[str, bytes]]


@dataclass(frozen=True)
class Mounts:
    """A container's volumes: mount path → folder."""

    folders: Mapping[str, Path]

    def relocate(self, text: str) -> str:
        """Replace the mount paths in a word with the folders' paths."""
        if not self.folders:
            return text
        longest_first = sorted(self.folders, key=len, reverse=True)
        paths = "|".join(map(re.escape, longest_first))
        return re.sub(rf"(?<![\w./-])({paths})(?=/|$|[^\w.-])", lambda found: str(self.folders[found[1]]), text)


class Volumes:
    """The volumes of one pod, in the folder `volumes` of the pod's own directory."""

    def __init__(self, api: KubernetesClient, pod: Object, directory: Path) -> None:
        self.directory = directory
        self._api = api
        self._pod = pod
        self._volumes: dict[str, Object] = {item["name"]: item for item in pod["spec"].get("volumes", ())}
        self._tokens: dict[Path, Object] = {}
        self._renew_at: dict[Path, datetime] = {}
        self._makers: dict[str, Callable[[Object], Files]] = {
            "emptyDir": lambda _: iter(()),
            "configMap": self._config_map,
            "secret": lambda source: self._secret({**source, "name": source["secretName"]}),
            "projected": self._projected,
        }
        self._sources: dict[str, Callable[[Object], Files]] = {
            "configMap": self._config_map,
            "secret": self._secret,
            "downwardAPI": self._downward,
        }

    def mount(self, container: Object) -> Mounts:
        """Create the volumes that a container mounts; return them. Raises ContainerConfigError with the reason."""
        folders = {}
        for mount in container.get("volumeMounts", ()):
            _require_known(mount)
            folders[mount["mountPath"].rstrip("/")] = self._make(self._volumes[mount["name"]])
        self.renew()
        return Mounts(folders)

    def tree(self, claims: Path) -> list[Mount]:
        """Return the mounts of all containers together, for a sandbox.

        `claims` is the folder of the persistent volume claims. Raises ContainerConfigError.
        """
        spec, mounts = self._pod["spec"], dict[str, Mount]()
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            for mount in container.get("volumeMounts", ()):
                made = self._mount_of(mount, claims)
                if mounts.setdefault(made.target, made) != made:
                    raise ContainerConfigError(f"the containers of the pod mount different volumes at {made.target}")
        self.renew()
        return list(mounts.values())

    def _mount_of(self, mount: Object, claims: Path) -> Mount:
        _require_known(mount)
        volume, target = self._volumes[mount["name"]], mount["mountPath"].rstrip("/")
        read_only = bool(mount.get("readOnly"))
        if claim := volume.get("persistentVolumeClaim"):
            return Mount(target, str(self._claim(claim["claimName"], claims)), read_only=read_only)
        if volume.get("emptyDir", {}).get("medium") == "Memory":
            return Mount(target, None, size=_size(volume["emptyDir"].get("sizeLimit", "")))
        return Mount(target, str(self._make(volume)), read_only=read_only)

    def _claim(self, name: str, claims: Path) -> Path:
        namespace = self._pod["metadata"]["namespace"]
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
        try:
            phase = self._api.get(path).get("status", {}).get("phase")
        except KubernetesClientError as error:
            raise ContainerConfigError(str(error)) from error
        if phase != "Bound":
            raise ContainerConfigError(f"claim {name} is {phase}, not Bound")
        folder = claims / f"{namespace}_{name}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def renew(self) -> None:
        """Request the tokens that are missing or have used 80 % of their lifetime. Raises ContainerConfigError."""
        for file, source in self._tokens.items():
            if datetime.now(UTC) >= self._renew_at.get(file, datetime.min.replace(tzinfo=UTC)):
                _write(file, self._token(source).encode(), mode=0o600)
                self._renew_at[file] = datetime.now(UTC) + timedelta(seconds=0.8 * source["expirationSeconds"])

    def _make(self, volume: Object) -> Path:
        [kind] = volume.keys() - {"name"}
        if kind not in self._makers:
            known = ", ".join(self._makers)
            raise ContainerConfigError(f"volume {volume['name']}: {kind} is not supported. Allowed: {known}")
        folder = self.directory / "volumes" / str(volume["name"])
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self._makers[kind]({**volume[kind], "folder": folder}):
            _write(folder / name, data)
        return folder

    def _projected(self, volume: Object) -> Files:
        for source in volume["sources"]:
            [(kind, projection)] = source.items()
            if kind == "serviceAccountToken":
                self._tokens[volume["folder"] / projection["path"]] = projection
            elif kind in self._sources:
                yield from self._sources[kind](projection)
            else:
                raise ContainerConfigError(f"the rehearsal does not support {kind} in a projected volume")

    def _config_map(self, source: Object) -> Files:
        return self._files("configMap", source)

    def _secret(self, source: Object) -> Files:
        return self._files("secret", source)

    def _files(self, kind: str, source: Object) -> Files:
        name, optional = source["name"], bool(source.get("optional"))
        data = content(self._api, self._pod, kind, name, optional=optional) or {}
        if "items" not in source:
            yield from data.items()
        for item in source.get("items", ()):
            if item["key"] in data:
                yield item["path"], data[item["key"]]
            elif not optional:
                raise ContainerConfigError(f"no key {item['key']} in {kind} {name}")

    def _downward(self, source: Object) -> Files:
        for item in source["items"]:
            if "fieldRef" not in item:
                raise ContainerConfigError("the rehearsal supports only fieldRef in a downwardAPI volume")
            yield item["path"], field(self._pod, item["fieldRef"]["fieldPath"]).encode()

    def _token(self, source: Object) -> str:
        metadata, account = self._pod["metadata"], self._pod["spec"]["serviceAccountName"]
        reference = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        spec: Object = {"expirationSeconds": source["expirationSeconds"], "boundObjectRef": reference}
        if audience := source.get("audience"):
            spec["audiences"] = [audience]
        path = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token"
        try:
            return str(self._api.create(path, {"spec": spec})["status"]["token"])
        except KubernetesClientError as error:
            raise ContainerConfigError(f"no token for service account {account}: {error}") from error


def _require_known(mount: Object) -> None:
    if unknown := mount.keys() - _MOUNT_FIELDS:
        raise ContainerConfigError(f"the rehearsal does not support {', '.join(unknown)} of a volume mount")


def _size(quantity: str) -> str:
    """Return a quantity of memory in the form of mount(8): `4096Mi` → `4096m`."""
    return re.sub(r"([KMGT])i$", lambda unit: unit[1].lower(), quantity)


def _write(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a file atomically: a reader sees either the old or the new content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.touch(mode=mode)
    new.write_bytes(data)
    new.replace(path)
