"""Create, update and delete EKS clusters, with moto's records and a real control plane.

Simulated: a cluster whose version has no Go module (`kubernetes/building/modules`) runs the nearest that has one. An
upgrade restarts the control plane's one API server, so it does not answer for seconds. The control plane's logs are not
delivered to its log group.
"""

import base64
import copy
import threading
import uuid
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from embedded_account.context import Account
from embedded_account.errors import ResourceError
from embedded_account.kubernetes.building.binaries import BinariesError
from embedded_account.kubernetes.running import Plane
from embedded_account.machine.processes import ProcessError
from embedded_account.services.eks import checks
from embedded_account.services.eks.access.entries import AccessEntryStore
from embedded_account.services.eks.access.pod_identity import PodIdentityAssociations
from embedded_account.services.eks.addons import DEFAULT_ADDONS, Addons
from embedded_account.services.eks.errors import in_use, invalid_request
from embedded_account.services.eks.node_groups import NodeGroups
from embedded_account.services.eks.records import ClusterRecords

_services: dict[tuple[str, str], "EksService"] = {}
_PLATFORM_VERSION = "eks.1"
_CONTROL_PLANE_INTERFACES = 2
NETWORK_DEFAULTS: Mapping[str, Any] = {
    "endpointPublicAccess": True,
    "endpointPrivateAccess": False,
    "publicAccessCidrs": ["0.0.0.0/0"],
    "securityGroupIds": [],
}
DEFAULT_UPGRADE_POLICY: Mapping[str, str] = {"supportType": "EXTENDED"}
ADMIN_POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


def service_of(account: Account) -> "EksService":
    """Return the EKS service that was installed for the account."""
    return _services[account.account_id, account.region]


def _issuer_id() -> str:
    return uuid.uuid4().hex.upper()


@dataclass(frozen=True)
class ClusterIds:
    """The ids that EKS chooses for a cluster: its OIDC issuer's and its security group's (None: EC2 generates it)."""

    issuer_id: str = field(default_factory=_issuer_id)
    security_group_id: str | None = None


class EksService:
    """EKS of one account and region."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.records = ClusterRecords(account)
        self.entries = AccessEntryStore(account, self.records)
        self.addons = Addons(account, self.records)
        self.node_groups = NodeGroups(account, self.records, self.entries)
        self.pod_identities = PodIdentityAssociations(account, self.records)
        self._workers = ThreadPoolExecutor(2, thread_name_prefix="eks")
        self._pending: dict[str, Future[None]] = {}
        self._prepared: dict[str, ClusterIds] = {}
        self._lock = threading.RLock()
        _services[account.account_id, account.region] = self

    def prepare_cluster(self, name: str, version: str) -> None:
        """Begin to start the control plane of a cluster that is created later: nobody waits for it then."""
        identity = self._prepared[name] = ClusterIds()
        self.account.clusters.prepare(name, self._issuer(identity), version)

    def create_cluster(
        self, request: Mapping[str, Any], creator_arn: str | None, identity: ClusterIds | None = None
    ) -> Any:
        """Start to create a cluster and return it; its status is CREATING until its control plane runs.

        `creator_arn` is the role or user that sends the request. It becomes a cluster administrator, unless the
        request declines.
        """
        with self._lock:
            if request["name"] in self.records.backend.clusters:
                raise in_use(f"Cluster already exists with name: {request['name']}")
            checks.check_cluster(self.account, request)
            # A reset of moto's records forgets a cluster without its deletion.
            self._forget(request["name"])
            identity = identity or self._prepared.pop(request["name"], None) or ClusterIds()
            cluster = self._record(request, identity)
        self._pending[cluster.name] = self._workers.submit(self._bring_up, cluster, request, creator_arn, identity)
        return cluster

    def wait_until_active(self, name: str) -> Any:
        """Wait until a cluster is created or upgraded and return it; raise the error that stopped this."""
        self._pending[name].result()
        return self.records.cluster(name)

    def delete_cluster(self, name: str) -> Any:
        """Delete a cluster and the resources that EKS created for it; as on AWS, its log group is kept."""
        cluster = self.records.cluster(name)
        if cluster.deletion_protection:
            raise invalid_request(f"Cluster {name} cannot be deleted because deletion protection is enabled")
        if cluster.nodegroups:
            raise in_use("Cluster has nodegroups attached")
        if cluster.status == "CREATING":
            raise in_use(f"Cluster has status CREATING: {name}")
        if cluster.status == "UPDATING":
            raise in_use(f"Cannot delete because cluster {name} currently has an update in progress")
        cluster.status = "DELETING"
        self._tear_down(cluster)
        return cluster

    def update_config(self, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out an UpdateClusterConfig request and return its Update."""
        cluster = self._updatable(name, "ConfigUpdate")
        if vpc := request.get("resourcesVpcConfig"):
            before, merged = cluster.resources_vpc_config, cluster.resources_vpc_config | vpc
            checks.check_network(self.account, merged)
            cluster.resources_vpc_config = merged
            if any(before.get(name) != merged[name] for name in ("subnetIds", "securityGroupIds")):
                self._replace_interfaces(cluster)
        if logging := request.get("logging"):
            checks.check_logging(logging)
            cluster.logging = copy.deepcopy(dict(logging))
            self._make_log_group(cluster)
        mode = request.get("accessConfig", {}).get("authenticationMode", "API")
        if mode != "API":
            raise invalid_request(f"Unsupported authentication mode update from API to {mode}")
        if (protection := request.get("deletionProtection")) is not None:
            cluster.deletion_protection = protection
        if policy := request.get("upgradePolicy"):
            cluster.upgrade_policy = dict(policy)
        return self.records.updates.record(name, "ConfigUpdate")

    def update_version(self, name: str, version: str) -> dict[str, Any]:
        """Start to carry out an UpdateClusterVersion request and return its Update, which is InProgress meanwhile."""
        with self._lock:
            cluster = self._updatable(name, "VersionUpdate")
            groups = {group.nodegroup_name: group.version for group in cluster.nodegroups.values()}
            checks.check_upgrade(cluster.version, version, groups)
            cluster.status = "UPDATING"
        params = {"Version": version, "PlatformVersion": _PLATFORM_VERSION}
        update = self.records.updates.record(name, "VersionUpdate", status="InProgress", params=params)
        self._pending[name] = self._workers.submit(self._upgrade, cluster, version, update)
        return dict(update)

    def _updatable(self, name: str, kind: str) -> Any:
        """Return an ACTIVE cluster. Raise EKS's error for one that is being updated, does not exist or is not ready."""
        if self.records.cluster(name).status == "UPDATING":
            update_id = self.records.updates.ids(name)[-1]
            raise in_use(f"Cannot {kind} because cluster {name} currently has update {update_id} in progress")
        return self.records.active_cluster(name)

    def _upgrade(self, cluster: Any, version: str, update: dict[str, Any]) -> None:
        try:
            self.account.clusters.upgrade(cluster.name, version)
        except (ProcessError, BinariesError) as error:
            update["errors"] = [{"errorCode": "Unknown", "errorMessage": str(error)}]
            update["status"] = "Failed"
            raise ResourceError(f"EKS cluster {cluster.name} was not updated to {version}: {error}") from error
        else:
            cluster.version = version
            update["status"] = "Successful"
        finally:
            cluster.status = "ACTIVE"

    def _record(self, request: Mapping[str, Any], identity: ClusterIds) -> Any:
        vpc = dict(request["resourcesVpcConfig"])
        cluster = self.records.backend.create_cluster(
            name=request["name"],
            role_arn=request["roleArn"],
            version=request.get("version", checks.DEFAULT_VERSION),
            kubernetes_network_config={"serviceIpv4Cidr": checks.SERVICE_RANGE, "ipFamily": "ipv4"},
            logging=copy.deepcopy(request.get("logging")),
            tags=dict(request.get("tags") or {}),
            encryption_config=copy.deepcopy(request.get("encryptionConfig")),
            resources_vpc_config={
                **copy.deepcopy(dict(NETWORK_DEFAULTS)),
                **vpc,
                "vpcId": checks.find_subnets(self.account, vpc["subnetIds"])[0].vpc_id,
            },
        )
        cluster.status = "CREATING"
        cluster.platformVersion = _PLATFORM_VERSION
        cluster.endpoint = cluster.certificate_authority = None
        cluster.identity = {"oidc": {"issuer": self._issuer(identity)}}
        cluster.access_config = {"authenticationMode": "API"}
        cluster.deletion_protection = bool(request.get("deletionProtection", False))
        cluster.upgrade_policy = dict(request.get("upgradePolicy") or DEFAULT_UPGRADE_POLICY)
        return cluster

    def _issuer(self, identity: ClusterIds) -> str:
        return f"https://oidc.eks.{self.account.region}.amazonaws.com/id/{identity.issuer_id}"

    def _bring_up(
        self, cluster: Any, request: Mapping[str, Any], creator_arn: str | None, identity: ClusterIds
    ) -> None:
        try:
            self._make_network(cluster, identity.security_group_id)
            self._make_log_group(cluster)
            plane = self._start(cluster)
            cluster.endpoint = plane.endpoint
            cluster.certificate_authority = {"data": base64.b64encode(plane.ca_pem).decode()}
            self.entries.open(cluster.name)
            cluster.status = "ACTIVE"
            if request.get("bootstrapSelfManagedAddons", True):
                for addon in DEFAULT_ADDONS:
                    self.addons.apply_stand_in(cluster.name, addon)
            bootstraps = request.get("accessConfig", {}).get("bootstrapClusterCreatorAdminPermissions", True)
            if bootstraps and creator_arn:
                self.entries.create(cluster.name, {"principalArn": creator_arn})
                self.entries.associate(cluster.name, creator_arn, ADMIN_POLICY, {"type": "cluster"})
        except BaseException:
            self._tear_down(cluster)
            raise

    def _start(self, cluster: Any) -> Plane:
        try:
            issuer = cluster.identity["oidc"]["issuer"]
            return self.account.clusters.start(cluster.name, issuer, cluster.version).control_plane
        except (ProcessError, BinariesError) as error:
            raise ResourceError(f"The control plane of EKS cluster {cluster.name} did not start: {error}") from error

    def _tear_down(self, cluster: Any) -> None:
        self._forget(cluster.name)
        self.account.clusters.stop(cluster.name)
        self.account.background.drop_all(cluster.arn)
        self.records.backend.delete_cluster(cluster.name)

    def _forget(self, cluster_name: str) -> None:
        self.entries.close(cluster_name)
        self.addons.forget(cluster_name)
        self.pod_identities.forget(cluster_name)

    def _make_network(self, cluster: Any, group_id: str | None) -> None:
        """Create the cluster's security group and the control plane's network interfaces."""
        config, background = cluster.resources_vpc_config, self.account.background
        group = background.security_group(
            maker_arn=cluster.arn,
            name=f"eks-cluster-sg-{cluster.name}-{uuid.uuid4().int % 10**10}",
            description="EKS created security group applied to ENI that is attached to EKS Control Plane master "
            "nodes, as well as any managed workloads.",
            vpc_id=config["vpcId"],
            tags={f"kubernetes.io/cluster/{cluster.name}": "owned", "aws:eks:cluster-name": cluster.name},
            group_id=group_id,
        )
        config["clusterSecurityGroupId"] = group.id
        self._replace_interfaces(cluster)

    def _replace_interfaces(self, cluster: Any) -> None:
        """Replace the control plane's network interfaces; the new ones are in subnets of two zones."""
        config, background = cluster.resources_vpc_config, self.account.background
        for made in background.made_by(cluster.arn):
            if made.kind == "network-interface":
                background.drop(made.identifier)
        subnets = checks.find_subnets(self.account, config["subnetIds"])
        per_zone = {subnet.availability_zone: subnet.id for subnet in reversed(subnets)}
        for subnet_id in sorted(per_zone.values(), key=config["subnetIds"].index)[:_CONTROL_PLANE_INTERFACES]:
            background.network_interface(
                maker_arn=cluster.arn,
                description=f"Amazon EKS {cluster.name}",
                subnet_id=subnet_id,
                security_group_ids=[config["clusterSecurityGroupId"], *config["securityGroupIds"]],
                requester_id="amazon-eks",
            )

    def _make_log_group(self, cluster: Any) -> None:
        setups = (cluster.logging or {}).get("clusterLogging", [])
        if any(setup.get("enabled") and setup.get("types") for setup in setups):
            self.account.background.log_group(maker_arn=cluster.arn, name=f"/aws/eks/{cluster.name}/cluster")
