"""Set the flags of a control plane's components, and explain where they differ from those of a cluster of machines."""

from pathlib import Path
from typing import Final

from embedded_account.kubernetes.nodes import KUBELET_LABEL, KUBELET_VALUE
from embedded_account.kubernetes.pki import Pki
from embedded_account.kubernetes.pods import podserver

# EKS's service range for a VPC outside the upper half of 10.0.0.0/8; its first address is pki.SERVICE_IP.
_SERVICES: Final = "10.100.0.0/16"
_PODS: Final = "10.244.0.1/16"
# Never used (nothing in the rehearsal has a pod network), but the API server requires a non-local address. 192.0.2.0/24
# is reserved for documentation (RFC 5737).
_ADVERTISED: Final = "192.0.2.1"
# With Kubernetes' defaults of 20 to 50 requests per second the start would take four seconds longer.
_REQUEST_RATE: Final = ("--kube-api-qps=500", "--kube-api-burst=1000")


def etcd(data: Path, files: Pki, *, port: int, peer_port: int) -> list[str]:
    """Return etcd's flags: one member that does not sync its disposable data to disk.

    Writing to etcd bypasses the API server's checks: both ports require a certificate of etcd's own authority.
    """
    client, peer = f"https://127.0.0.1:{port}", f"https://127.0.0.1:{peer_port}"
    return [
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--client-cert-auth",
        f"--trusted-ca-file={files.etcd_ca}",
        f"--cert-file={files.etcd_certificate}",
        f"--key-file={files.etcd_key}",
        "--peer-client-cert-auth",
        f"--peer-trusted-ca-file={files.etcd_ca}",
        f"--peer-cert-file={files.etcd_certificate}",
        f"--peer-key-file={files.etcd_key}",
        "--unsafe-no-fsync",
        # With etcd's own times, the only member waits up to a second for others before it elects itself. With shorter
        # ones it wakes more often, and an idle member needs three times the CPU time.
        "--heartbeat-interval=100",
        "--election-timeout=500",
        "--log-level=warn",
    ]


def api_server(files: Pki, *, port: int, etcd_port: int, issuer: str, directory: Path) -> list[str]:
    """Return the API server's flags.

    `directory` is for a certificate that it may create itself; `issuer` is the `iss` of service account tokens.
    """
    return [
        f"--etcd-servers=https://127.0.0.1:{etcd_port}",
        f"--etcd-cafile={files.etcd_ca}",
        f"--etcd-certfile={files.etcd_client_certificate}",
        f"--etcd-keyfile={files.etcd_client_key}",
        f"--cert-dir={directory}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--advertise-address={_ADVERTISED}",
        "--endpoint-reconciler-type=none",
        f"--service-cluster-ip-range={_SERVICES}",
        "--allow-privileged=true",
        "--authorization-mode=Node,RBAC",
        f"--client-ca-file={files.ca}",
        f"--tls-cert-file={files.server_certificate}",
        f"--tls-private-key-file={files.server_key}",
        f"--service-account-issuer={issuer}",
        f"--service-account-key-file={files.service_account_public_key}",
        f"--service-account-signing-key-file={files.service_account_key}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={files.ca}",
        f"--kubelet-client-certificate={files.admin_certificate}",
        f"--kubelet-client-key={files.admin_key}",
    ]


def audit(policy: Path, log: Path) -> list[str]:
    """Return the flags that log the requests that `policy` names to `log`."""
    return [f"--audit-policy-file={policy}", f"--audit-log-path={log}"]


def authenticator(config: Path) -> list[str]:
    """Return the flags for a TokenReview webhook.

    It is asked about every bearer token that is not a service account's, as EKS does for IAM.
    """
    return [
        f"--authentication-token-webhook-config-file={config}",
        "--authentication-token-webhook-version=v1",
        "--authentication-token-webhook-cache-ttl=5s",
    ]


def controller_manager(kubeconfig: Path, files: Pki, *, grace: int) -> list[str]:
    """Return the controller manager's flags; after `grace` seconds a silent node is lost."""
    return [
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        *_REQUEST_RATE,
        f"--service-account-private-key-file={files.service_account_key}",
        f"--root-ca-file={files.ca}",
        # A claim that names its volume is bound by this poll alone, which by default comes every 15 seconds.
        "--pvclaimbinder-sync-period=1s",
        # Its own main package starts this one, with a shorter pause (building/modules/kubernetes/garbage.go).
        "--controllers=*,-garbage-collector-controller",
        "--use-service-account-credentials",
        "--node-monitor-period=1s",
        f"--node-monitor-grace-period={grace}s",
    ]


def scheduler(kubeconfig: Path) -> list[str]:
    """Return the scheduler's flags; it serves no metrics."""
    return [f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0", *_REQUEST_RATE]


def kwok(kubeconfig: Path, stages: Path, *, grace: int) -> list[str]:
    """Return kwok's flags: it simulates the nodes with the kubelet label, and their pods by `stages`."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--manage-nodes-with-label-selector={KUBELET_LABEL}={KUBELET_VALUE}",
        # kwok renews leases at a quarter of this: well within the grace period.
        f"--node-lease-duration-seconds={grace}",
        f"--cidr={_PODS}",
        f"--node-ip={podserver.ADDRESS}",
        f"--config={stages}",
    ]
