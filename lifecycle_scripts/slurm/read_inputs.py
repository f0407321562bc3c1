"""Read the inputs of the lifecycle scripts: the options, the table of users, what HyperPod says of this node.

It runs with the node's own Python, which can be as old as 3.8.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

OPTIONS = {
    "MOUNT_POINT": (r"/[A-Za-z0-9._/-]+", "an absolute path"),
    "S3_BUCKET": (r"([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])?", "the name of a bucket, or nothing"),
    "S3_MOUNT_POINT": (r"/[A-Za-z0-9._/-]+", "an absolute path"),
    "S3_WRITE": (r"true|false", "true, false"),
    "CONTAINERS": (r"true|false", "true, false"),
}
"""The pattern of each option, and the pattern in words."""
NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
KEY = re.compile(r"(ssh-(ed25519|rsa)|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]+=*( .*)?")
IDS = range(1000, 60001)


def refuse(message: str) -> NoReturn:
    """End the program with a message for the log."""
    sys.exit(f"ERROR: {message}")


def invalid(where: str, key: str, value: str, reason: str, *, allowed: str, fix: str) -> NoReturn:
    """End the program with the message about one value."""
    refuse(f"{where} {key}: {value} is invalid: {reason}. Allowed: {allowed}. Fix: {fix}")


def lines(path: str) -> list[tuple[int, str]]:
    """Return the lines that are neither empty nor comments, with their numbers."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        refuse(f"{path}: {error.strerror}. Fix: upload the whole folder of lifecycle scripts")
    except UnicodeDecodeError:
        refuse(f"{path} is not UTF-8 text. Fix: save it as UTF-8")
    numbered = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return [(number, line) for number, line in numbered if line and not line.startswith("#")]


def options(path: str) -> dict[str, str]:
    """Return the options; each must be given once, and no other."""
    found: dict[str, str] = {}
    for number, line in lines(path):
        key, _, value = line.partition("=")
        where, known = f"{path}:{number}", ", ".join(OPTIONS)
        if key not in OPTIONS:
            invalid(where, key, line, "unknown key", allowed=known, fix="correct the key, or remove the line")
        if key in found:
            invalid(where, key, value, "is listed twice", allowed="each key once", fix="remove one of the lines")
        pattern, words = OPTIONS[key]
        if not re.fullmatch(pattern, value):
            invalid(where, key, value, "it has another form", allowed=words, fix="correct it, without quotation marks")
        found[key] = value
    if missing := [key for key in OPTIONS if key not in found]:
        refuse(f"{path}: {', '.join(missing)} is missing. Fix: copy the line from lifecycle_scripts/slurm/options")
    return found


def users(path: str) -> list[tuple[str, int, str]]:
    """Return the users: name, id, public key or ""."""
    found: list[tuple[str, int, str]] = []
    for number, line in lines(path):
        name, uid, key = (*(part.strip() for part in line.split(",", 2)), "", "")[:3]
        where = f"{path}:{number}"
        if not NAME.fullmatch(name):
            words = "a lower-case letter or _, then up to 31 of a-z, 0-9, _ and -"
            invalid(where, "name", name, "Linux refuses it", allowed=words, fix="choose another name")
        if not uid.isdecimal() or int(uid) not in IDS:
            words = f"{IDS.start} to {IDS.stop - 1}"
            fix = "write NAME,UID or NAME,UID,PUBLIC KEY"
            invalid(where, "uid", uid, "it is no id of a person", allowed=words, fix=fix)
        if key and not KEY.fullmatch(key):
            words = "the line of a file such as ~/.ssh/id_ed25519.pub"
            invalid(where, "key", key[:20], "it is no public SSH key", allowed=words, fix="copy the whole line")
        for what, value, others in (("name", name, [each[0] for each in found]), ("uid", uid, _ids(found))):
            if value in others:
                invalid(where, what, value, "is listed twice", allowed="each once", fix="correct one of the lines")
        found.append((name, int(uid), key))
    return found


def _ids(found: Sequence[tuple[str, int, str]]) -> list[str]:
    return [str(each[1]) for each in found]


def node(resource_config: str, parameters: str, addresses: Sequence[str]) -> dict[str, str]:
    """Return what is known of the node that has these addresses.

    Without provisioning_parameters.json, HyperPod configures Slurm itself (AWS docs, "SageMaker HyperPod Slurm
    configuration"): the way is `api`, and the role is not known here.
    """
    found = _json(resource_config, "HyperPod writes it before it runs the lifecycle scripts")
    groups = [
        (_text(resource_config, "Name", each.get("Name")), _addresses(resource_config, each.get("Instances")))
        for each in _objects(resource_config, "InstanceGroups", found.get("InstanceGroups"))
    ]
    group = next((name for name, known in groups if set(known) & set(addresses)), None)
    if group is None:
        where = f"{resource_config} names no node with the addresses {', '.join(addresses)} in InstanceGroups"
        refuse(f"{where}. Fix: replace the node")
    _required(resource_config, "Name", group)
    try:
        given = _json(parameters, "")
    except FileNotFoundError:
        return {"way": "api", "group": group, "role": "", "controllers": "", "fsx_dns_name": "", "fsx_mountname": ""}
    role, controller_group = _role(given, group, parameters)
    # The first of two groups with one name, as awslabs/awsome-distributed-ai does.
    controllers = next((known for name, known in groups if name == controller_group), [])
    if role != "controller" and not controllers:
        refuse(
            f"{resource_config} names no node of the controller group {controller_group} with a CustomerIpAddress. "
            f"Fix: wait until the group has its node, or correct controller_group in {parameters}"
        )
    for address in controllers:
        _matches(resource_config, "CustomerIpAddress", address, r"[0-9A-Fa-f.:]+", "an IP address")
    return {
        "way": "provisioning_parameters",
        "group": group,
        "role": role,
        "controllers": ",".join(controllers),
        **_file_system(given, parameters),
    }


def _role(given: dict[str, Any], group: str, path: str) -> tuple[str, str]:
    """Return the group's role, and the controllers' group.

    Login nodes come before workers: some guides list their group as workers too.
    """
    manager = _text(path, "workload_manager", given.get("workload_manager"))
    _matches(path, "workload_manager", manager or "slurm", "slurm", "slurm")
    controllers = _required(path, "controller_group", _text(path, "controller_group", given.get("controller_group")))
    workers = [
        _required(path, "instance_group_name", _text(path, "instance_group_name", each.get("instance_group_name")))
        for each in _objects(path, "worker_groups", given.get("worker_groups"))
    ]
    login = _text(path, "login_group", given.get("login_group"))
    roles = {"controller": [controllers], "login": [login], "compute": workers}
    found = next((role for role, names in roles.items() if group in names), None)
    if found is None:
        named = ", ".join(name for names in roles.values() for name in names if name)
        reason = "it does not list this node's group"
        invalid(path, "worker_groups", group, reason, allowed=named, fix="name the groups alike")
    return found, controllers


def _file_system(given: dict[str, Any], path: str) -> dict[str, str]:
    """Return both names of the file system, or "" for both."""
    patterns = {"fsx_dns_name": r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+", "fsx_mountname": r"[A-Za-z0-9_-]+"}
    found = {key: _text(path, key, given.get(key)) for key in patterns}
    if any(found.values()):
        for key, pattern in patterns.items():
            _matches(path, key, _required(path, key, found[key]), pattern, "the name that FSx gives")
    return found


def _addresses(path: str, instances: object) -> list[str]:
    """Return the addresses of a group's instances; an instance has none until HyperPod knows it."""
    key = "CustomerIpAddress"
    known = [_text(path, key, one.get(key)) for one in _objects(path, "Instances", instances)]
    return [address for address in known if address]


def _objects(path: str, key: str, value: object) -> list[dict[str, Any]]:
    """Return the objects of a list. Null is none: a group that has no instances yet has null, or no key."""
    found = [] if value is None else value
    if not isinstance(found, list) or not all(each is None or isinstance(each, dict) for each in found):
        _other_type(path, key, value, "a list of objects")
    return [each for each in found if each is not None]


def _text(path: str, key: str, value: object) -> str:
    """Return a text, "" for null. Generators write names of digits alone as numbers."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        _other_type(path, key, value, "a text")
    return str(value)


def _other_type(path: str, key: str, value: object, allowed: str) -> NoReturn:
    invalid(path, key, json.dumps(value)[:40], "it has another type", allowed=allowed, fix="correct the file")


def _required(path: str, key: str, value: str) -> str:
    if not value:
        invalid(path, key, "''", "it is missing", allowed="a name", fix="add it to the file")
    return value


def _matches(path: str, key: str, value: str, pattern: str, words: str) -> None:
    """Refuse what a program of the node would not take for what it is."""
    if not re.fullmatch(pattern, value):
        invalid(path, key, json.dumps(value), "it has another form", allowed=words, fix="correct the file")


def _json(path: str, source: str) -> dict[str, Any]:
    """Return the object in a file. Raises FileNotFoundError for a file that is optional: one without a source."""
    try:
        # Editors on Windows put a mark before UTF-8.
        found = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        if not source:
            raise
        refuse(f"{path} is missing: {source}. Fix: run these scripts on a node of HyperPod")
    except OSError as error:
        refuse(f"{path} cannot be read: {error.strerror}. Fix: run these scripts as root on a node of HyperPod")
    except (ValueError, RecursionError) as error:
        refuse(f"{path} is not JSON: {error}. Fix: correct the file")
    if not isinstance(found, dict):
        refuse(f"{path} is no JSON object. Fix: correct the file")
    return found


def main(arguments: Sequence[str]) -> None:
    """Print what the caller asks for."""
    what, *rest = arguments
    if what == "option":
        print(options(rest[0])[rest[1]])
    elif what == "users":
        for name, uid, key in users(rest[0]):
            print(name, uid, key)
    elif what == "node":
        print(node(rest[0], rest[1], rest[3:])[rest[2]])


if __name__ == "__main__":
    main(sys.argv[1:])
