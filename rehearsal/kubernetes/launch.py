"""How a container of a pod becomes a local process: command, environment, ports, service account."""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from rehearsal.isolation import search_path
from rehearsal.kubernetes.api import Api, ApiError, Object
from rehearsal.kubernetes.kubeconfig import write_kubeconfig
from rehearsal.kubernetes.programs import Program
from rehearsal.processes import free_port

_TOKEN_MOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
_TOKEN_SECONDS: Final = 3607  # as kubelet asks for the volume that admission adds to every pod


class ContainerConfigError(Exception):
    """The container cannot be started as its pod describes it; kubelet would say CreateContainerConfigError."""


@dataclass(frozen=True)
class Launch:
    """A process to be started for a container."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    ports: Mapping[int, int]
    """Container port → local port."""


class ServiceAccount:
    """The pod's identity as files of this machine: a token that ends with the pod, and a kubeconfig that reads it."""

    def __init__(self, api: Api, pod: Object, directory: Path, ca: Path) -> None:
        self._api = api
        self._pod = pod
        self._token = directory / "token"
        self._renew_at = datetime.min.replace(tzinfo=UTC)
        self.kubeconfig = directory / "kubeconfig"
        directory.mkdir(parents=True, exist_ok=True)
        cluster = {"server": api.server, "certificate-authority": str(ca)}
        write_kubeconfig(self.kubeconfig, "pod", cluster, {"tokenFile": str(self._token)})

    def renew(self) -> None:
        """Get a token if there is none or most of its time is over. Raises ContainerConfigError."""
        if datetime.now(UTC) < self._renew_at:
            return
        metadata, name = self._pod["metadata"], self._pod["spec"]["serviceAccountName"]
        reference = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        path = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{name}/token"
        request = {"spec": {"expirationSeconds": _TOKEN_SECONDS, "boundObjectRef": reference}}
        try:
            answer = self._api.create(path, request)
        except ApiError as error:
            raise ContainerConfigError(f"no token for service account {name}: {error}") from error
        self._token.touch(mode=0o600)
        self._token.write_text(answer["status"]["token"])
        self._renew_at = datetime.now(UTC) + timedelta(seconds=0.8 * _TOKEN_SECONDS)


def prepare(api: Api, pod: Object, container: Object, program: Program, account: ServiceAccount) -> Launch:
    """Work out the process of a container. Raises ContainerConfigError saying what is wrong."""
    variables = _environment(api, pod, container)
    command = container.get("command") or [program.entrypoint]
    words = [_expand(word, variables) for word in [*command, *container.get("args", ())]]
    executable = program.executables.get(words[0])
    if executable is None:
        known = ", ".join(program.executables)
        raise ContainerConfigError(f"{container['image']} has no {words[0]} (the rehearsal knows: {known})")
    arguments, ports = _with_local_ports(words[1:], program.ports)
    arguments += [word.format(namespace=pod["metadata"]["namespace"]) for word in program.arguments]
    own = {"PATH": search_path(), "HOSTNAME": pod["metadata"]["name"], "HOME": str(account.kubeconfig.parent)}
    mounts = {mount["mountPath"] for mount in container.get("volumeMounts", ())}
    if _TOKEN_MOUNT in mounts:  # else automountServiceAccountToken is off, and the pod has no identity
        account.renew()
        own["KUBECONFIG"] = str(account.kubeconfig)
    return Launch([str(executable), *arguments], own | variables, ports)


def _with_local_ports(arguments: Sequence[str], flags: Mapping[str, int]) -> tuple[list[str], dict[int, int]]:
    """Replace the listen addresses by free local ones; return what became of each port."""
    kept, ports = [], {}
    wanted = dict(flags)
    for argument in arguments:
        flag, _, value = argument.partition("=")
        if flag in flags and value:
            wanted[flag] = int(value.rpartition(":")[2])
        else:
            kept.append(argument)
    for flag, port in wanted.items():
        ports[port] = free_port()
        kept.append(f"{flag}=127.0.0.1:{ports[port]}")
    return kept, ports


def _environment(api: Api, pod: Object, container: Object) -> dict[str, str]:
    variables: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        variables |= dict(_all_of(api, pod, source))
    for entry in container.get("env", ()):
        if "valueFrom" in entry:
            value = _value_from(api, pod, entry["name"], entry["valueFrom"])
            if value is not None:
                variables[entry["name"]] = value
        else:
            variables[entry["name"]] = _expand(entry.get("value", ""), variables)
    return variables


def _expand(text: str, variables: Mapping[str, str]) -> str:
    """Kubernetes' own `$(NAME)`; `$$(NAME)` stands for itself, an unknown name stays."""

    def replace(found: re.Match[str]) -> str:
        return found[0][1:] if found[0].startswith("$$") else variables.get(found[1], found[0])

    return re.sub(r"\$?\$\(([^)]+)\)", replace, text)


def _all_of(api: Api, pod: Object, source: Object) -> Iterator[tuple[str, str]]:
    prefix = source.get("prefix", "")
    for kind in ("configMapRef", "secretRef"):
        if reference := source.get(kind):
            content = _content(api, pod, kind.removesuffix("Ref"), reference) or {}
            yield from ((prefix + key, value) for key, value in content.items())


def _value_from(api: Api, pod: Object, name: str, source: Object) -> str | None:
    """The value of one variable; None if its source is missing and optional."""
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if reference := source.get(kind):
            content = _content(api, pod, kind.removesuffix("KeyRef"), reference)
            if content is not None and reference["key"] in content:
                return content[reference["key"]]
            if reference.get("optional"):
                return None
            raise ContainerConfigError(f"variable {name}: no key {reference['key']} in {reference['name']}")
    if reference := source.get("fieldRef"):
        return _field(pod, reference["fieldPath"])
    raise ContainerConfigError(f"variable {name}: the rehearsal does not know {', '.join(source)}")


def _content(api: Api, pod: Object, kind: str, reference: Object) -> dict[str, str] | None:
    """Data of a ConfigMap or Secret; None if it is missing and optional."""
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/{kind.lower()}s/{reference['name']}"
    try:
        data: dict[str, str] = api.get(path).get("data") or {}
    except ApiError as error:
        if error.status == 404 and reference.get("optional"):
            return None
        raise ContainerConfigError(str(error)) from error
    if kind == "secret":
        return {key: base64.b64decode(value).decode() for key, value in data.items()}
    return data


def _field(pod: Object, path: str) -> str:
    """A `fieldRef`. Raises ContainerConfigError for one that a simulated node cannot answer."""
    if found := re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path):
        return str(pod["metadata"].get(found[1], {}).get(found[2], ""))
    if path in ("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"):
        part, name = path.split(".")
        return str(pod[part].get(name, ""))
    raise ContainerConfigError(f"the rehearsal does not know the field {path}")
