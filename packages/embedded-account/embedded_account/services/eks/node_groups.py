"""Managed node groups: their nodes join the cluster with the labels, taints and resources that they have on EKS.

Simulated: no instance exists, only its network interface and its Node object; nodes join at once; a node group never
becomes unhealthy. A request whose real nodes could not join is refused.
"""

import copy
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moto.ec2.models import ec2_backends
from moto.ec2.models.instance_types import INSTANCE_TYPES

from embedded_account.context import Account
from embedded_account.kubernetes.allocatable import GPU_RESOURCE, allocatable
from embedded_account.services.ec2.reach import NODE_SERVICES, NetworkLocation, unreachable
from embedded_account.services.eks import launch_templates
from embedded_account.services.eks.access.entries import AccessEntryStore
from embedded_account.services.eks.checks import check_node_version, find_subnets
from embedded_account.services.eks.errors import in_use, invalid_parameter, invalid_request, not_found
from embedded_account.services.eks.records import ClusterRecords
from embedded_account.services.iam.access import find_role, trusts

_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
_AMI_TYPES = (
    "AL2023_x86_64_STANDARD",
    "AL2023_ARM_64_STANDARD",
    "AL2023_x86_64_NVIDIA",
    "AL2023_x86_64_NEURON",
    "BOTTLEROCKET_x86_64",
    "BOTTLEROCKET_ARM_64",
)
"""The allowed AMI types; EKS has no Amazon Linux 2 image for Kubernetes 1.33 and later."""
_DEFAULT_INSTANCE_TYPES = ["t3.medium"]
_DEFAULT_DISK_GIB = 20
_MOST_PODS_SMALL, _MOST_PODS_LARGE, _LARGE_VCPUS = 110, 250, 30
_NODE_POLICIES = ("AmazonEKSWorkerNodePolicy", "AmazonEKSWorkerNodeMinimalPolicy")
_IMAGE_POLICIES = (
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEC2ContainerRegistryReadOnly",
    "AmazonEC2ContainerRegistryPowerUser",
)


@dataclass(frozen=True)
class _Node:
    name: str
    interface_id: str


class NodeGroups:
    """The managed node groups of all clusters."""

    def __init__(self, account: Account, records: ClusterRecords, entries: AccessEntryStore) -> None:
        self._account = account
        self._records = records
        self._entries = entries
        self._lock = threading.RLock()
        self._nodes: dict[str, list[_Node]] = {}

    def get(self, cluster_name: str, name: str) -> Any:
        """Return moto's Nodegroup; raise EKS's error if it does not exist."""
        groups = self._records.cluster(cluster_name).nodegroups
        if name not in groups:
            raise not_found(f"No node group found for name: {name}.")
        return groups[name]

    def create(self, cluster_name: str, request: Mapping[str, Any]) -> Any:
        """Carry out a CreateNodegroup request and return the node group, whose nodes have joined."""
        cluster = self._records.active_cluster(cluster_name)
        if request["nodegroupName"] in cluster.nodegroups:
            raise in_use(
                f"NodeGroup already exists with name {request['nodegroupName']} and cluster name {cluster_name}"
            )
        self._check(cluster, request)
        template = self._launch_template(cluster, request)
        self._check_network(request["subnets"], template.security_groups)
        group = self._records.backend.create_nodegroup(
            cluster_name=cluster_name,
            nodegroup_name=request["nodegroupName"],
            node_role=request["nodeRole"],
            subnets=list(request["subnets"]),
            scaling_config=_scaling(request.get("scalingConfig")),
            disk_size=template.root_volume_gib or int(request.get("diskSize", _DEFAULT_DISK_GIB)),
            instance_types=list(request.get("instanceTypes") or _DEFAULT_INSTANCE_TYPES),
            ami_type=request.get("amiType", _AMI_TYPES[0]),
            labels=dict(request.get("labels") or {}),
            taints=list(request.get("taints") or []),
            tags=dict(request.get("tags") or {}),
            capacity_type=request.get("capacityType", "ON_DEMAND"),
            version=request.get("version", cluster.version),
            release_version=request.get("releaseVersion", f"{cluster.version}-rehearsal"),
        )
        group.remote_access = None
        group.launch_template = copy.deepcopy(request.get("launchTemplate"))
        group.security_groups = list(template.security_groups)
        group.resources = {"autoScalingGroups": [{"name": f"eks-{group.nodegroup_name}-{group.uuid}"}]}
        group.update_config = dict(request.get("updateConfig") or {"maxUnavailable": 1})
        try:
            self._admit(cluster_name, request["nodeRole"])
            self._scale(group)
        except BaseException:
            self.delete(cluster_name, group.nodegroup_name)
            raise
        return group

    def update_config(self, cluster_name: str, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out an UpdateNodegroupConfig request and return its Update.

        New labels and taints apply only to new nodes.
        """
        group = self.get(cluster_name, name)
        if scaling := request.get("scalingConfig"):
            wanted = _scaling(group.scaling_config | {key: int(value) for key, value in scaling.items()})
            group.scaling_config = wanted
        self._records.backend.update_nodegroup_config(
            cluster_name=cluster_name,
            nodegroup_name=name,
            labels=request.get("labels"),
            taints=request.get("taints"),
            update_config=request.get("updateConfig"),
        )
        self._scale(group)
        return self._records.updates.record(cluster_name, "ConfigUpdate")

    def update_version(self, cluster_name: str, name: str, request: Mapping[str, Any]) -> None:
        """Carry out an UpdateNodegroupVersion request: the versions of Kubernetes, the image and the launch template.

        Simulated: the nodes are not replaced.
        """
        group, cluster = self.get(cluster_name, name), self._records.active_cluster(cluster_name)
        version = request.get("version", group.version)
        check_node_version(version, cluster.version, group.version)
        template = self._launch_template(cluster, request)
        self._check_network(group.subnets, template.security_groups)
        group.version, group.release_version = version, request.get("releaseVersion", f"{version}-rehearsal")
        group.launch_template = copy.deepcopy(request.get("launchTemplate"))
        group.security_groups = list(template.security_groups)

    def replace_labels_and_taints(self, group: Any, labels: Mapping[str, str], taints: list[Any]) -> None:
        """Replace all labels and taints, which CloudFormation declares in full."""
        _check_taints(taints)
        group.labels, group.taints = dict(labels), list(taints)

    def delete(self, cluster_name: str, name: str) -> Any:
        """Delete a node group with its nodes and their network interfaces, and return it."""
        group = self.get(cluster_name, name)
        group.scaling_config = {"minSize": 0, "maxSize": 1, "desiredSize": 0}
        self._scale(group)
        self._nodes.pop(group.arn, None)
        self._records.backend.delete_nodegroup(cluster_name, name)
        others = self._records.cluster(cluster_name).nodegroups.values()
        if group.node_role not in {other.node_role for other in others}:
            entry = self._entries.find(cluster_name, group.node_role)
            if entry and entry.type == "EC2_LINUX":
                self._entries.delete(cluster_name, group.node_role)
        return group

    def _admit(self, cluster_name: str, role_arn: str) -> None:
        """Create the access entry of a node role if it does not exist, as EKS does."""
        if not self._entries.find(cluster_name, role_arn):
            self._entries.create(cluster_name, {"principalArn": role_arn, "type": "EC2_LINUX"})

    def _scale(self, group: Any) -> None:
        with self._lock:
            nodes = self._nodes.setdefault(group.arn, [])
            while len(nodes) < group.scaling_config["desiredSize"]:
                nodes.append(self._add_node(group, len(nodes)))
            while len(nodes) > group.scaling_config["desiredSize"]:
                node = nodes.pop()
                self._account.clusters.get(group.cluster_name).nodes.remove(node.name)
                self._account.background.drop(node.interface_id)

    def _add_node(self, group: Any, index: int) -> _Node:
        account = self._account
        subnet = find_subnets(account, group.subnets)[index % len(group.subnets)]
        instance_id = f"i-{uuid.uuid4().hex[:17]}"
        interface = account.background.network_interface(
            maker_arn=group.arn,
            description=f"primary interface of {instance_id}, node group {group.nodegroup_name}",
            subnet_id=subnet.id,
            security_group_ids=group.security_groups,
        )
        domain = "ec2.internal" if account.region == "us-east-1" else f"{account.region}.compute.internal"
        node = _Node(f"ip-{interface.private_ip_address.replace('.', '-')}.{domain}", interface.id)
        instance_type = group.instance_types[0]
        capacity, room = _resources(instance_type, group.disk_size)
        account.clusters.get(group.cluster_name).nodes.add(
            node.name,
            labels={
                "node.kubernetes.io/instance-type": instance_type,
                "topology.kubernetes.io/region": account.region,
                "topology.kubernetes.io/zone": subnet.availability_zone,
                "topology.k8s.aws/zone-id": subnet.availability_zone_id,
                "eks.amazonaws.com/nodegroup": group.nodegroup_name,
                "eks.amazonaws.com/capacityType": group.capacity_type,
                **group.labels,
            },
            capacity=capacity,
            allocatable=room,
            taints=[
                {"key": taint["key"], "value": taint.get("value", ""), "effect": _EFFECTS[taint["effect"]]}
                for taint in group.taints
            ],
            provider_id=f"aws:///{subnet.availability_zone}/{instance_id}",
        )
        return node

    def _check(self, cluster: Any, request: Mapping[str, Any]) -> None:
        check_node_version(request.get("version", cluster.version), cluster.version)
        _scaling(request.get("scalingConfig"))
        _check_taints(list(request.get("taints") or []))
        subnets = find_subnets(self._account, request["subnets"])
        if {subnet.vpc_id for subnet in subnets} != {cluster.resources_vpc_config["vpcId"]}:
            raise invalid_parameter("Subnets are not in the VPC of the cluster")
        for name in request.get("instanceTypes") or _DEFAULT_INSTANCE_TYPES:
            if name not in INSTANCE_TYPES:
                raise invalid_parameter(f"The following supplied instance types do not exist: [{name}]")
        if (ami_type := request.get("amiType", _AMI_TYPES[0])) not in _AMI_TYPES:
            raise invalid_parameter(f"amiType {ami_type} is invalid. Allowed: {', '.join(_AMI_TYPES)}")
        if request.get("capacityType", "ON_DEMAND") not in ("ON_DEMAND", "SPOT"):
            raise invalid_parameter(f"capacityType {request['capacityType']} is invalid. Allowed: ON_DEMAND, SPOT")
        if request.get("remoteAccess"):
            raise invalid_parameter("remoteAccess: the rehearsal's nodes have no key pairs")
        self._check_role(request["nodeRole"])

    def _check_network(self, subnets: list[str], security_groups: tuple[str, ...]) -> None:
        """Raise EKS's error if nodes cannot reach the services that they call at start: they would never join."""
        ec2 = ec2_backends[self._account.account_id][self._account.region]
        for subnet_id in subnets:
            if why := unreachable(ec2, NetworkLocation(subnet_id, security_groups), NODE_SERVICES):
                raise invalid_request(f"NodeCreationFailure: instances would not join the cluster: {why}")

    def _launch_template(self, cluster: Any, request: Mapping[str, Any]) -> launch_templates.LaunchSettings:
        """Return the request's launch template or EKS's own; one without security groups gets the cluster's group."""
        cluster_group = cluster.resources_vpc_config["clusterSecurityGroupId"]
        if specification := request.get("launchTemplate"):
            template = launch_templates.read(self._account, specification, request)
            if template.security_groups:
                return template
            return launch_templates.LaunchSettings((cluster_group,), template.root_volume_gib)
        return launch_templates.LaunchSettings((cluster_group,), None)

    def _check_role(self, role_arn: str) -> None:
        """Raise EKS's error if the role lacks trust in EC2, or EKS's or ECR's policies.

        Without the policies nodes would never join; on AWS EKS gives up after half an hour.
        """
        if not trusts(self._account, role_arn, "ec2.amazonaws.com"):
            raise invalid_parameter(f"Role {role_arn} does not exist or does not trust ec2.amazonaws.com")
        role = find_role(self._account, role_arn)
        names = {policy.name for policy in role.managed_policies.values()} if role else set()
        for needed in (_NODE_POLICIES, _IMAGE_POLICIES):
            if not names & set(needed):
                raise invalid_request(
                    f"NodeCreationFailure: instances would not join the cluster: role {role_arn} has none of "
                    f"{', '.join(needed)}"
                )


def _scaling(given: Mapping[str, Any] | None) -> dict[str, int]:
    """Return a scalingConfig with EKS's defaults; raise EKS's error unless minimum <= desired <= maximum."""
    scaling = {"minSize": 1, "desiredSize": 2, "maxSize": 2} | {k: int(v) for k, v in (given or {}).items()}
    if not 0 <= scaling["minSize"] <= scaling["desiredSize"] <= scaling["maxSize"] or not scaling["maxSize"]:
        raise invalid_parameter(
            f"scalingConfig {scaling} is invalid. Allowed: 0 <= minSize <= desiredSize <= maxSize, with maxSize >= 1"
        )
    return scaling


def _check_taints(taints: list[Any]) -> None:
    for taint in taints:
        if taint.get("effect") not in _EFFECTS:
            raise invalid_parameter(f"taint effect {taint.get('effect')} is invalid. Allowed: {', '.join(_EFFECTS)}")


def _resources(instance_type: str, disk_gib: int) -> tuple[dict[str, str], dict[str, str]]:
    """Return the capacity and the allocatable resources of a node.

    They follow from EC2's figures for the instance type and the reservations of the EKS image.
    """
    facts = INSTANCE_TYPES[instance_type]
    network, cpu = facts["NetworkInfo"], facts["VCpuInfo"]
    pods = network["MaximumNetworkInterfaces"] * (network["Ipv4AddressesPerInterface"] - 1) + 2
    pods = min(pods, _MOST_PODS_LARGE if cpu["DefaultVCpus"] > _LARGE_VCPUS else _MOST_PODS_SMALL)
    memory_gib = max(1, facts["MemoryInfo"]["SizeInMiB"] // 1024)
    gpus = sum(gpu["Count"] for gpu in facts.get("GpuInfo", {}).get("Gpus", []))
    room = allocatable(cpus=cpu["DefaultVCpus"], memory_gib=memory_gib, pods=pods)
    both = {"pods": str(pods)} | ({GPU_RESOURCE: str(gpus)} if gpus else {})
    capacity = {"cpu": str(cpu["DefaultVCpus"]), "memory": f"{memory_gib}Gi", "ephemeral-storage": f"{disk_gib}Gi"}
    # The kubelet reserves 1 GiB for itself and evicts pods when less than 10 % is free.
    disk = f"{int((disk_gib - 1) * 0.9)}Gi"
    free = room.quantities | {"ephemeral-storage": disk}
    return capacity | both, free | both
