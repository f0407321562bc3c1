"""Generate environments for tests, valid and broken ones, and read environments from another directory."""

import copy
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import strategies as st

import config
from config.facts.daemonsets import system_pods
from config.facts.instance_types import InstanceType, catalogue

Document = dict[str, Any]


def read_from(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make all functions of `config` read environments from this directory instead of the committed one."""
    # The directory is their default argument, which Python bound when it defined the functions.
    for function in (
        *(config.allowed_names, config.available, config.examine, config.file_of, config.load, config.load_any),
        *(config.load_as, config.misnamed, config.name_of, config.neighbours),
    ):
        monkeypatch.setattr(function, "__defaults__", (directory,))


ACCOUNT: Final = "111122223333"
# Regions with the zone ids of three zones that take an EKS control plane.
ZONES: Final = {
    "us-west-2": ("usw2-az1", "usw2-az2", "usw2-az3"),
    "us-east-1": ("use1-az1", "use1-az2", "use1-az4"),
    "eu-central-1": ("euc1-az1", "euc1-az2", "euc1-az3"),
    "ap-northeast-1": ("apne1-az1", "apne1-az2", "apne1-az4"),
}


def _heads() -> list[InstanceType]:
    """Return the types with room for a head of 2 CPUs and 8 GiB beside DaemonSets and floating pods."""
    return [
        kind
        for kind in catalogue().values()
        if not kind.accelerated and kind.vcpus >= 8 and kind.memory_gib >= 32 and kind.pod_cap > system_pods(kind) + 1
    ]


def _workers() -> list[InstanceType]:
    return [
        kind
        for kind in catalogue().values()
        if kind.accelerated and kind.vcpus >= 16 and kind.memory_gib >= 64 and kind.pod_cap > system_pods(kind) + 1
    ]


_TEXTS: Final = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=9)
names: Final = st.from_regex(r"[a-z][a-z0-9]{1,8}(-[a-z0-9]{1,4})?", fullmatch=True)


@st.composite
def valid_environments(draw: st.DrawFn) -> Document:
    """Generate documents that keep every rule, without `name`, which must be the file's."""
    region = draw(st.sampled_from(sorted(ZONES)))
    zones = draw(st.permutations(ZONES[region]))[: draw(st.integers(2, 3))]
    groups, clusters = draw(_groups_and_clusters(zones))
    document: Document = {
        "project": draw(names),
        "account": ACCOUNT,
        "region": region,
        "network": draw(_network(zones)),
        "access": draw(_access()),
        "hyperpod": {"cluster_name": draw(names), "instance_groups": groups},
        "image": draw(_image(groups)),
        "ray": {"clusters": clusters},
    }
    document["eks"] = draw(_eks())
    document["fsx"] = draw(_fsx(existing_vpc="existing" in document["network"]))
    if document["fsx"].get("provisioning") != "dynamic":
        document["protect"] = draw(st.booleans())
    if draw(st.booleans()):
        document["notifications"] = {"email": "ml-platform@example.com"}
    return document


@st.composite
def _network(draw: st.DrawFn, zones: list[str]) -> Document:
    second = draw(st.integers(192, 250))
    if draw(st.booleans()):
        nat = draw(st.sampled_from(["one", "one-per-zone"]))
        return {"vpc_cidr": f"10.{second}.0.0/16", "zones": zones, "nat_gateways": nat}
    nodes = [
        {"id": f"subnet-0000000000000000{n}", "zone": zone, "cidr": f"10.{second}.{64 * (n + 1)}.0/18"}
        for n, zone in enumerate(zones)
    ]
    control = [
        {"id": f"subnet-1111111111111111{n}", "zone": zone, "cidr": f"10.{second}.0.{16 * n}/28"}
        for n, zone in enumerate(zones[:2])
    ]
    shared = {"owner": "444455556666"} if draw(st.booleans()) else {}
    return {
        "existing": {
            "id": "vpc-0123456789abcdef0",
            "cidr": f"10.{second}.0.0/16",
            **shared,
            "node_subnets": nodes,
            "control_plane_subnets": control,
        }
    }


@st.composite
def _access(draw: st.DrawFn) -> Document:
    roles = [
        f"arn:aws:iam::{ACCOUNT}:role/{name}" for name in draw(st.lists(names, unique=True, min_size=1, max_size=4))
    ]
    first, second = sorted(draw(st.tuples(st.integers(1, len(roles)), st.integers(1, len(roles)))))
    return {"admins": roles[:first], "submitters": roles[first:second], "viewers": roles[second:]}


@st.composite
def _eks(draw: st.DrawFn) -> Document:
    eks: Document = {"version": draw(st.sampled_from(["1.32", "1.33", "1.34", "1.35"]))}
    if draw(st.booleans()):
        return eks | {"endpoint_access": "private"}
    blocks = draw(st.lists(st.integers(1, 250), min_size=1, max_size=3, unique=True))
    return eks | {"public_access_cidrs": [f"203.0.{n}.0/24" for n in blocks]}


@st.composite
def _fsx(draw: st.DrawFn, *, existing_vpc: bool) -> Document:
    kind = draw(st.sampled_from(["static", "dynamic", "existing"] if existing_vpc else ["static", "dynamic"]))
    if kind == "existing":
        return {"existing": {"id": "fs-0123456789abcdef0", "mount_name": "abcdefgh"}}
    fsx: Document = {
        "provisioning": kind,
        "capacity_gib": draw(st.sampled_from([1200, 2400, 4800, 9600])),
        "throughput_mbps_per_tib": draw(st.sampled_from([125, 250, 500, 1000])),
        "compression": draw(st.sampled_from(["LZ4", "NONE"])),
        "mount_path": draw(st.sampled_from(["/fsx", "/shared/data"])),
    }
    if kind == "static":
        linked = draw(st.lists(names, unique=True, max_size=8))
        fsx["data_repositories"] = [{"path": f"/{name}", "prefix": name} for name in linked]
    else:
        fsx["reclaim_policy"] = draw(st.sampled_from(["Delete", "Retain"]))
    return fsx


@st.composite
def _groups_and_clusters(draw: st.DrawFn, zones: list[str]) -> tuple[list[Document], list[Document]]:
    """Generate a group for heads, a group for each worker group, and the RayClusters on them."""
    head = draw(st.sampled_from(_heads()))
    cluster_names = draw(st.lists(names, unique=True, min_size=1, max_size=2))
    group_names = draw(
        st.lists(names, unique=True, min_size=1 + 2 * len(cluster_names), max_size=5 + len(cluster_names))
    )
    groups = [{"name": group_names[0], "instance_type": head.name, "count": len(cluster_names)}]
    clusters = []
    for n, name in enumerate(cluster_names):
        # EFA requires that all groups of a cluster are in one zone.
        zone = draw(st.sampled_from([None, *zones]))
        workers: list[Document] = []
        for group_name in group_names[1 + 2 * n : 3 + 2 * n][: draw(st.integers(1, 2))]:
            group = draw(_worker_group(group_name)) | ({"zone": zone} if zone else {})
            groups.append(group)
            replicas = draw(st.integers(0, group["count"]))
            workers.append(
                {
                    "name": draw(names) + str(len(workers)),
                    "instance_group": group_name,
                    "replicas": replicas,
                    "min_replicas": draw(st.integers(0, replicas)),
                    "max_replicas": draw(st.integers(max(1, replicas), 20)),
                }
            )
        cluster: Document = {"name": name, "head": {"instance_group": group_names[0]}, "workers": workers}
        cluster["env"] = draw(st.dictionaries(st.sampled_from(["NCCL_DEBUG", "A", "_B1"]), _TEXTS, max_size=2))
        if draw(st.booleans()):
            cluster["priority"] = draw(st.integers(-1000, 1000))
        clusters.append(cluster)
    return groups, clusters


@st.composite
def _image(draw: st.DrawFn, groups: list[Document]) -> Document:
    """Return an own image where the built one's CUDA is older than the GPUs."""
    if any(catalogue()[group["instance_type"]].cuda for group in groups):
        return {"uri": f"{ACCOUNT}.dkr.ecr.us-west-2.amazonaws.com/{draw(names)}"}
    return {"repository": draw(names)}


@st.composite
def _worker_group(draw: st.DrawFn, name: str) -> Document:
    kind = draw(st.sampled_from(_workers()))
    count = draw(st.integers(1, 16))
    group: Document = {
        "name": name,
        "instance_type": kind.name,
        "count": count,
        "threads_per_core": draw(st.sampled_from(kind.threads_per_core)),
        "volume_gib": draw(st.integers(1, 16384)),
        "labels": draw(st.dictionaries(names, names, max_size=2)),
    }
    if draw(st.booleans()):
        group["deep_health_checks"] = ["InstanceStress"]
    else:
        # Neuron's device plugin tolerates no taint that repels pods.
        neuron = kind.gpus < kind.accelerators
        effect = st.sampled_from(["PreferNoSchedule"] if neuron else ["NoSchedule", "PreferNoSchedule"])
        group["taints"] = [
            {"key": key, "effect": draw(effect)} for key in draw(st.lists(names, unique=True, max_size=2))
        ]
    if draw(st.booleans()):
        group["min_count"] = draw(st.integers(1, count))
    return group


_SCALARS: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**40), 10**40),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["", " ", "no", "010", "2024-01-01", "ml.p5.48xlarge", "/", "/..", "a\nb", "\x00", "é", "x" * 300]),
)
_VALUES: Final = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)


@st.composite
def changed_environments(draw: st.DrawFn) -> Document:
    """Generate valid documents with one to four random changes, most of which break them."""
    document = copy.deepcopy(draw(valid_environments()))
    for _ in range(draw(st.integers(1, 4))):
        place: Any = document
        while True:
            keys: list[Any] = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            inner = place[key]
            if isinstance(inner, dict | list) and inner and draw(st.integers(0, 4)):
                place = inner
                continue
            _change(draw, place, key)
            break
    return document


def _change(draw: st.DrawFn, place: Any, key: Any) -> None:
    match draw(st.sampled_from(["other", "near", "gone", "unknown", "twice"])):
        case "other":
            place[key] = draw(_VALUES)
        case "near" if isinstance(place[key], int) and not isinstance(place[key], bool):
            place[key] += draw(st.sampled_from([-100_000, -1, 1, 7, 100_000]))
        case "near" if isinstance(place[key], str):
            place[key] = draw(st.sampled_from([place[key] * 2, place[key].upper(), place[key] + "\n", place[key][:-1]]))
        case "unknown" if isinstance(place, dict):
            place[draw(st.text(max_size=8))] = draw(_VALUES)
        case "twice" if isinstance(place, list):
            place.append(copy.deepcopy(place[key]))
        case _:
            del place[key]
