"""Draw docs/architecture.svg from the environment dev: `python docs/architecture.py`.

Names, sizes and addresses come from the environment; `data-resource` of a box names the stack and resource type
that it stands for, and a test looks each of them up in the synthesised templates.
"""

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final

import config
from config import EksEnvironment, naming

FILE: Final = Path(__file__).with_name("architecture.svg")
# The picture is the walkthrough's, not that of the user's `dev`.
_ENVIRONMENTS: Final = Path(__file__).parents[1] / "tests" / "environments"
_STYLE: Final = """
text { font: 13px system-ui, sans-serif; fill: #1b1f24 } .h { font-weight: 600 } .s { fill: #57606a; font-size: 11.5px }
.vpc { fill: #f6f8fa; stroke: #8c959f; stroke-dasharray: 6 4 } .own { fill: #eef6ff; stroke: #3b78c3 }
.sub { fill: #ffffff; stroke: #b6c2cf } .box { fill: #ffffff; stroke: #57606a } .ray { fill: #fff4e5; stroke: #d9822b }
.line { stroke: #57606a; stroke-width: 1.4; fill: none; marker-end: url(#a) }
.eni { stroke: #3b78c3; stroke-width: 2.4; fill: none; marker-start: url(#e); marker-end: url(#e) }
"""


def draw(environment: EksEnvironment) -> str:
    """Return the picture as SVG."""
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1180 640" role="img" '
            'aria-label="Architecture: three VPCs and the interfaces between them">',
            f"<style>{_STYLE}</style>",
            '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0 8 4 0 8z" fill="#57606a"/></marker><marker id="e" viewBox="0 0 8 8" refX="4" refY="4" '
            'markerWidth="4" markerHeight="4"><circle cx="4" cy="4" r="3.5" fill="#3b78c3"/></marker></defs>',
            '<rect width="1180" height="640" fill="#ffffff"/>',
            *_hyperpod(environment),
            *_network(environment),
            *_eks(environment),
            *_services(environment),
            *_connections(),
            "</svg>\n",
        ]
    )


def _hyperpod(environment: EksEnvironment) -> Iterator[str]:
    yield from _area(16, 16, 330, 400, "vpc", "HyperPod's VPC", "AWS's own, not visible in the account")
    cluster = environment.hyperpod.cluster_name
    yield from _box(32, 66, 298, 46, "box", cluster, "HyperPod cluster", "hyperpod Custom::HyperPodCluster")
    y = 124
    ray = environment.ray.clusters[0]
    for group in environment.hyperpod.instance_groups:
        detail = f"{group.count} x {group.instance_type}, threads per core {group.threads_per_core}"
        yield from _box(32, y, 298, 128, "sub", f"instance group {group.name}", detail)
        pods = [f"Ray head of {ray.name}"] if ray.head.instance_group == group.name else []
        pods += [
            f"{w.replicas} Ray workers ({w.name}), one a node" for w in ray.workers if w.instance_group == group.name
        ]
        for pod in pods:
            yield from _box(46, y + 52, 270, 62, "ray", pod, f"mounts {environment.fsx.mount_path}")
        y += 140


def _network(environment: EksEnvironment) -> Iterator[str]:
    network = environment.network
    title = f"VPC {network.vpc_cidr}"
    yield from _area(398, 16, 420, 400, "own", title, "yours: the network stack", "network AWS::EC2::VPC")
    zone = network.zones[0]
    yield from _box(414, 66, 388, 212, "sub", f"node subnet {network.node_subnet(0)}", f"zone {zone}, private")
    fsx = environment.fsx
    detail = f"{fsx.capacity_gib:,} GiB, {fsx.throughput_mbps_per_tib} MB/s per TiB, {fsx.compression}"
    yield from _box(430, 118, 356, 48, "box", "FSx for Lustre", detail, "storage AWS::FSx::FileSystem")
    system = environment.eks.system_nodes
    detail = f"{system.count} x {system.instance_type}: KubeRay, CSI controller, image build"
    yield from _box(430, 174, 356, 48, "box", "node group system", detail, "eks AWS::EKS::Nodegroup")
    detail = "all within itself, and out to 0.0.0.0/0"
    group = "network AWS::EC2::SecurityGroup"
    yield from _box(430, 230, 356, 40, "box", "one shared security group", detail, group)
    small = f"{network.public_subnet(0)} …"
    yield from _box(414, 290, 188, 50, "sub", "public subnets, NAT", small, "network AWS::EC2::NatGateway")
    small = f"{network.control_plane_subnet(0)} …"
    yield from _box(614, 290, 188, 50, "sub", "control-plane subnets", small, "network AWS::EC2::Subnet")
    endpoints = "gateway endpoints: S3, DynamoDB"
    yield from _box(414, 352, 388, 48, "sub", endpoints, "flow logs to CloudWatch", "network AWS::EC2::VPCEndpoint")


def _eks(environment: EksEnvironment) -> Iterator[str]:
    yield from _area(870, 16, 294, 400, "vpc", "EKS's VPC", "AWS's own, not visible in the account")
    name = naming.eks_cluster(environment)
    detail = f"Kubernetes {environment.eks.version}, secrets encrypted"
    yield from _box(886, 66, 262, 50, "box", f"EKS cluster {name}", detail, "eks AWS::EKS::Cluster")
    cidrs = ", ".join(str(cidr) for cidr in environment.eks.public_access_cidrs)
    yield from _box(886, 126, 262, 50, "sub", "public endpoint", f"from {cidrs} only")
    yield from _box(
        886, 186, 262, 50, "sub", "access entries", "admins, submitters, viewers", "eks AWS::EKS::AccessEntry"
    )
    detail = f"{environment.kuberay_version} in {environment.kuberay.namespace}, on the system nodes"
    yield from _box(886, 246, 262, 50, "ray", "KubeRay operator", detail, "platform Custom::AWSCDK-EKS-HelmChart")
    detail = f"RayCluster {environment.ray.clusters[0].name}, network policies"
    resource = "ray Custom::AWSCDK-EKS-KubernetesResource"
    yield from _box(886, 306, 262, 50, "ray", f"namespace {environment.ray.namespace}", detail, resource)


def _services(environment: EksEnvironment) -> Iterator[str]:
    yield from _area(16, 452, 1148, 172, "own", "Regional services of the account", "")
    boxes = [
        ("data bucket", "datasets, results; linked to FSx", "storage AWS::S3::Bucket"),
        ("lifecycle scripts", "a folder by its hash in S3", "storage AWS::S3::Bucket"),
        (f"ECR {environment.image.repository}", "tag = hash of ray_image/", "storage AWS::ECR::Repository"),
        ("IAM roles", "HyperPod's nodes; one for each kind of pod", "hyperpod AWS::IAM::Role"),
    ]
    for index, (title, detail, resource) in enumerate(boxes):
        yield from _box(32 + index * 283, 500, 268, 46, "box", title, detail, resource)
    more = [
        ("custom resources", "boto3 handlers: cluster, teardown guard", "hyperpod AWS::Lambda::Function"),
        ("event rule → SNS", "cluster and node events by e-mail", "hyperpod AWS::Events::Rule"),
        ("OIDC provider", "pods take their roles through it", "eks AWS::IAM::OIDCProvider"),
        ("KMS key", "Kubernetes secrets", "eks AWS::KMS::Key"),
    ]
    for index, (title, detail, resource) in enumerate(more):
        yield from _box(32 + index * 283, 560, 268, 46, "box", title, detail, resource)


def _connections() -> Iterator[str]:
    yield '<path class="eni" d="M330 200 H414"/>'
    yield '<text class="s" x="352" y="192">node</text><text class="s" x="352" y="218">ENIs</text>'
    yield '<path class="eni" d="M802 315 H886"/>'
    yield '<text class="s" x="832" y="307">ENIs</text>'
    yield '<path class="line" d="M608 416 V452"/><path class="line" d="M180 416 V452"/>'


def _area(
    x: int, y: int, width: int, height: int, style: str, title: str, note: str, resource: str = ""
) -> Iterator[str]:
    yield _rect(x, y, width, height, style, resource)
    yield f'<text class="h" x="{x + 14}" y="{y + 22}">{escape(title)}</text>'
    yield f'<text class="s" x="{x + 14}" y="{y + 39}">{escape(note)}</text>'


def _box(
    x: int, y: int, width: int, height: int, style: str, title: str, detail: str, resource: str = ""
) -> Iterator[str]:
    yield _rect(x, y, width, height, style, resource)
    yield f'<text x="{x + 10}" y="{y + 19}">{escape(title)}</text>'
    yield f'<text class="s" x="{x + 10}" y="{y + 36}">{escape(detail)}</text>'


def _rect(x: int, y: int, width: int, height: int, style: str, resource: str) -> str:
    data = f' data-resource="{escape(resource)}"' if resource else ""
    return f'<rect class="{style}" x="{x}" y="{y}" width="{width}" height="{height}" rx="5"{data}/>'


if __name__ == "__main__":
    FILE.write_text(draw(config.load("dev", _ENVIRONMENTS)))
