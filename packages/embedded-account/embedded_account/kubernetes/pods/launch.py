"""Work out a container's local process: command, environment, ports."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from embedded_account.kubernetes.api import KubernetesClient, Object
from embedded_account.kubernetes.kubeconfig import write_kubeconfig
from embedded_account.kubernetes.pki import SERVICE_IP
from embedded_account.kubernetes.pods.programs import Program
from embedded_account.kubernetes.pods.references import ContainerConfigError, content, field, node_address
from embedded_account.kubernetes.pods.sandbox.pod import Sandbox
from embedded_account.kubernetes.pods.volumes import TOKEN_MOUNT, Volumes
from embedded_account.machine.isolation import search_path
from embedded_account.machine.processes import free_port


@dataclass(frozen=True)
class Launch:
    """A process to start for a container."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    ports: Mapping[int, int]
    """Container port → local port."""
    sandbox: Sandbox | None = None
    """The sandbox that it runs in; None for a plain process of this machine."""


def prepare(api: KubernetesClient, pod: Object, container: Object, program: Program, volumes: Volumes) -> Launch:
    """Return the process of a container. Raises ContainerConfigError with the reason."""
    variables = _environment(api, pod, container)
    words, executable = _command(container, program, variables)
    mounts = volumes.mount(container)
    arguments, ports = _with_local_ports([mounts.relocate(word) for word in words[1:]], program.ports)
    arguments += [word.format(namespace=pod["metadata"]["namespace"]) for word in program.arguments]
    own = {"PATH": search_path(), "HOSTNAME": pod["metadata"]["name"], "HOME": str(volumes.directory)}
    server = urlsplit(api.server)
    own |= {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}
    if account := mounts.folders.get(TOKEN_MOUNT):  # otherwise the pod has no identity
        own["KUBECONFIG"] = _kubeconfig(volumes.directory, api.server, account)
    variables = {name: mounts.relocate(value) for name, value in variables.items()}
    return Launch([str(executable), *arguments], own | variables, ports)


def prepare_inside(sandbox: Sandbox, api: KubernetesClient, pod: Object, container: Object, program: Program) -> Launch:
    """Return the process of a container in its pod's sandbox, where commands and ports are those of the manifest.

    Raises ContainerConfigError.
    """
    variables = _environment(api, pod, container)
    words, executable = _command(container, program, variables)
    argv = [*sandbox.enter, str(executable), *words[1:]]
    own = {"PATH": sandbox.path, "HOSTNAME": pod["metadata"]["name"], "HOME": str(sandbox.home)}
    own |= {"KUBERNETES_SERVICE_HOST": SERVICE_IP, "KUBERNETES_SERVICE_PORT": "443"}
    # On a node Ray has the cores for itself. Here its workers, to which it gives the lowest priority, would wait for
    # everything else.
    own["RAY_worker_niceness"] = "0"
    return Launch(argv, own | variables, {}, sandbox)


def _command(container: Object, program: Program, variables: Mapping[str, str]) -> tuple[list[str], Path]:
    """Return the words of the container's command, and the program that replaces the first word."""
    command = container.get("command") or [program.entrypoint]
    words = [_expand(word, variables) for word in [*command, *container.get("args", ())]]
    executable = program.executables.get(words[0])
    if executable is None:
        known = ", ".join(program.executables)
        raise ContainerConfigError(f"{container['image']} has no {words[0]} in the rehearsal. Allowed: {known}")
    return words, executable


def _kubeconfig(directory: Path, server: str, account: Path) -> str:
    """Write a kubeconfig; return its path.

    It is for programs that read their account only from the mount path, as Kubernetes' own client does.
    """
    file = directory / "kubeconfig"
    cluster = {"server": server, "certificate-authority": str(account / "ca.crt")}
    write_kubeconfig(file, "pod", cluster, {"tokenFile": str(account / "token")})
    return str(file)


def _with_local_ports(arguments: Sequence[str], flags: Mapping[str, int]) -> tuple[list[str], dict[int, int]]:
    """Replace the listen addresses with free local ones; return the arguments, and container port → local port."""
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


def _environment(api: KubernetesClient, pod: Object, container: Object) -> dict[str, str]:
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
    """Expand Kubernetes' `$(NAME)`. `$$(NAME)` becomes `$(NAME)`; an unknown name stays."""

    def replace(found: re.Match[str]) -> str:
        return found[0][1:] if found[0].startswith("$$") else variables.get(found[1], found[0])

    return re.sub(r"\$?\$\(([^)]+)\)", replace, text)


def _all_of(api: KubernetesClient, pod: Object, source: Object) -> Iterator[tuple[str, str]]:
    prefix = source.get("prefix", "")
    for kind in ("configMap", "secret"):
        if reference := source.get(f"{kind}Ref"):
            found = content(api, pod, kind, reference["name"], optional=bool(reference.get("optional"))) or {}
            yield from ((prefix + key, value.decode()) for key, value in found.items())


def _value_from(api: KubernetesClient, pod: Object, name: str, source: Object) -> str | None:
    """Return the value of one variable, or None if its source is missing and optional."""
    for kind in ("configMap", "secret"):
        if reference := source.get(f"{kind}KeyRef"):
            optional = bool(reference.get("optional"))
            found = content(api, pod, kind, reference["name"], optional=optional)
            if found is not None and reference["key"] in found:
                return found[reference["key"]].decode()
            if optional:
                return None
            raise ContainerConfigError(f"variable {name}: no key {reference['key']} in {reference['name']}")
    if reference := source.get("fieldRef"):
        if reference["fieldPath"] == "status.hostIP":
            return node_address(api, pod)
        return field(pod, reference["fieldPath"])
    raise ContainerConfigError(f"variable {name}: the rehearsal does not support {', '.join(source)}")
