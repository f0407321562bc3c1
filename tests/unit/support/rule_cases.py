"""Cases for each rule of `config.rules`: a document that keeps the rule, and the smallest change that breaks only it.

A change maps keys (`hyperpod.instance_groups.1.count`) to values; GONE removes a key.
"""

import copy
from dataclasses import dataclass, field
from typing import Any, Final

from config.facts.versions import VPC_CNI

GONE: Final = object()
Change = dict[str, Any]

HEADS: Final = "hyperpod.instance_groups.0"
NODES: Final = "hyperpod.instance_groups.1"
NEURON: Final = "hyperpod.instance_groups.2"
CLUSTER: Final = "ray.clusters.0"
WORKERS: Final = "ray.clusters.0.workers.0"

REGISTRY: Final = "111122223333.dkr.ecr.us-west-2.amazonaws.com"
SUBNETS: Final = [
    {"id": f"subnet-0123456789abcdef{n}", "zone": zone, "cidr": f"10.20.{64 * (n + 1)}.0/18"}
    for n, zone in enumerate(("usw2-az2", "usw2-az1"))
]
CONTROL: Final = [
    {"id": f"subnet-0fedcba987654321{n}", "zone": zone, "cidr": f"10.20.0.{16 * n}/28"}
    for n, zone in enumerate(("usw2-az2", "usw2-az1"))
]
EXISTING_VPC: Final[Change] = {
    "network": {
        "existing": {
            "id": "vpc-0123456789abcdef0",
            "cidr": "10.20.0.0/16",
            "node_subnets": SUBNETS,
            "control_plane_subnets": CONTROL,
        }
    }
}
EXISTING_EKS: Final[Change] = EXISTING_VPC | {
    "eks": {
        "existing": {
            "name": "platform",
            "oidc_provider_arn": "arn:aws:iam::111122223333:oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/0123",
            "security_group": "sg-0123456789abcdef0",
            "vpc_cni": VPC_CNI,
        }
    }
}
READ_ONLY: Final = "arn:aws:iam::aws:policy/ReadOnlyAccess"
NAMED: Final = {"service_account": "agent"}
GRAFANA: Final = "observability.hyperpod.grafana.public_access_cidrs"


def watched_from(*blocks: str) -> Change:
    """Return the change that makes a Grafana workspace for these networks."""
    return {"observability": {"hyperpod": {"grafana": {"public_access_cidrs": list(blocks)}}}}


WITHOUT_CHECKS: Final[Change] = {f"{NODES}.deep_health_checks": []}
ASLEEP: Final[Change] = WITHOUT_CHECKS | {f"{NODES}.sleep": {}}
THIRD: Final = "hyperpod.instance_groups.2"
FOURTH: Final = "hyperpod.instance_groups.3"
SPARE: Final = {"name": "spare", "instance_type": "ml.p5.48xlarge", "count": 4, "threads_per_core": 1, "sleep": {}}
STANDING_IN: Final[Change] = WITHOUT_CHECKS | {f"{NODES}.sleep": {"wake": ["spare"]}, THIRD: SPARE}
OTHER_NAMES: Final = ("worker-group-1", "nobody", "head-group")
BY_PATTERN: Final[Change] = {
    "company": {"name_pattern": "acme-{environment}-{name}"},
    "hyperpod.cluster_name": "acme-dev-ml-cluster",
    "image.repository": "acme-dev-ray",
}
TIERED: Final[Change] = {
    "hyperpod.tiered_storage": {"memory_percent": 20},
    "image.pip": ["amzn-sagemaker-checkpointing==1.1.3"],
}
LONGEST_PATTERN: Final[Change] = {
    "company": {"name_pattern": f"{'a' * 16}-{{environment}}-{{name}}"},
    "hyperpod.cluster_name": f"{'a' * 16}-dev-ml",
    "image.repository": f"{'a' * 16}-dev-ray",
}
KEY_ID: Final = "1234abcd-12ab-34cd-56ef-1234567890ab"
TYPE: Final = {
    "vcpus": 64,
    "memory_gib": 256,
    "threads_per_core": [1, 2],
    "pod_cap": 20,
    "ips_per_node": 21,
}
SECOND_GROUP: Final = {
    "name": "second",
    "instance_group": "worker-group-1",
    "replicas": 0,
    "min_replicas": 0,
    "max_replicas": 1,
}
SECOND_CLUSTER: Final = {"name": "second", "head": {"instance_group": "head-group"}, "workers": [SECOND_GROUP]}

CONTROLLER: Final = {
    "name": "controller-machine",
    "instance_type": "ml.c5.xlarge",
    "count": 1,
    "slurm": {"node": "controller"},
}
LOGIN: Final = {"name": "login-group", "instance_type": "ml.m5.large", "count": 1, "slurm": {"node": "login"}}
COMPUTE: Final = {
    "name": "compute-nodes",
    "instance_type": "ml.g5.4xlarge",
    "count": 2,
    "slurm": {"node": "compute", "partition": "dev"},
}
SLURM: Final[Change] = {
    **dict.fromkeys(("access", "eks", "image", "kuberay", "ray"), GONE),
    "fsx": {},
    "slurm": {},
    "hyperpod.instance_groups": [CONTROLLER, LOGIN, COMPUTE],
}
BY_SCRIPTS: Final[Change] = SLURM | {"slurm": {"configuration": "provisioning_parameters"}}
WITH_EFA: Final = COMPUTE | {"instance_type": "ml.p5.48xlarge"}
ELSEWHERE_WITH_EFA: Final = WITH_EFA | {
    "name": "elsewhere",
    "zone": "usw2-az1",
    "slurm": {"node": "compute", "partition": "other"},
}
TWO_PARTITIONS: Final[Change] = SLURM | {"hyperpod.instance_groups": [CONTROLLER, LOGIN, WITH_EFA, ELSEWHERE_WITH_EFA]}
WITH_PARAMETERS: Final = "tests/unit/config/rules/slurm_scripts"


@dataclass(frozen=True)
class Case:
    """`keeps` changes dev so that it keeps the rule; `breaks` changes the result so that it breaks the rule."""

    breaks: Change
    keeps: Change = field(default_factory=dict)


def changed(document: Any, change: Change) -> Any:
    """Return a copy of the document with the change."""
    document = copy.deepcopy(document)
    for key, value in change.items():
        *way, last = key.split(".")
        place = document
        for part in way:
            place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
        if isinstance(place, list):
            place[int(last) :] = [copy.deepcopy(value), *place[int(last) + 1 :]]
        elif value is GONE:
            place.pop(last, None)
        else:
            place[last] = copy.deepcopy(value)
    return document


# Invented secrets in the forms that their issuers document.
SECRETS: Final = (
    "AKIA" + "EXAMPLE0" * 2,
    "hf_" + "abcdefgh" * 4,
    "ghp_" + "abcdefgh" * 5,
    "github_pat_" + "abcdefgh" * 5,
    "glpat-" + "abcdefgh" * 3,
    "sk-" + "abcdefgh" * 4,
    "xoxb-" + "12345678" * 2,
    "eyJ" + "abcdefgh" + ".eyJ" + "abcdefgh" + ".x",
    "-----BEGIN " + "RSA PRIVATE KEY-----",
    "redis://user:" + "password@host:6379",
)
US_EAST: Final[Change] = {"region": "us-east-1", "network.zones": ["use1-az1", "use1-az2"]}
ELSEWHERE: Final[Change] = {f"{NODES}.zone": "usw2-az1"}

CASES: Final[dict[str, list[Case]]] = {
    "V1": [Case({"hyperpod.cluster_name": name}) for name in ("-ml", "ml-", "m" * 64, "ml_cluster", "ml\n", "")],
    "V2": [
        Case({"eks.version": "1.29"}, {"eks.version": "1.32"}),
        Case({"eks.version": "1.36"}),
        Case({"eks.version": "1.31"}),
    ],
    "V3": [
        Case({f"{HEADS}.instance_type": "m5.2xlarge"}),
        Case({f"{HEADS}.instance_type": "ml.m5.3xlarge"}),
        Case({f"{HEADS}.type_facts": GONE}, {f"{HEADS}.instance_type": "ml.new.xlarge", f"{HEADS}.type_facts": TYPE}),
    ],
    "V4": [Case({f"{NODES}.threads_per_core": 3}, {f"{NODES}.threads_per_core": 2})],
    "V5": [
        Case({f"{HEADS}.deep_health_checks": ["InstanceStress"]}),
        Case(
            {f"{NODES}.deep_health_checks": ["InstanceStress"]},
            {f"{NODES}.deep_health_checks": [], f"{NODES}.taints": [{"key": "team", "effect": "NoSchedule"}]},
        ),
        Case({f"{NODES}.deep_health_checks": ["InstanceStress", "InstanceStress"]}),
    ],
    "V6": [Case({f"{NODES}.min_count": 5}, {f"{NODES}.min_count": 4})],
    "V7": [
        Case(
            {"hyperpod.instance_groups.2.zone": "usw2-az1", f"{NODES}.zone": "usw2-az2"},
            {
                "hyperpod.instance_groups.2": {
                    "name": "more",
                    "instance_type": "ml.p5.48xlarge",
                    "count": 1,
                    "zone": "usw2-az1",
                },
                f"{NODES}.zone": "usw2-az1",
                f"{CLUSTER}.workers.1": SECOND_GROUP | {"instance_group": "more"},
            },
        ),
        Case({"hyperpod.instance_groups.3.slurm.partition": "dev"}, TWO_PARTITIONS),
    ],
    "V8": [Case(ELSEWHERE), Case({f"{NEURON}.zone": "usw2-az1"}, SLURM)],
    "V9": [
        Case({"fsx.capacity_gib": 1300}, {"fsx.capacity_gib": 2400}),
        Case({"fsx.capacity_gib": 3600}, {"fsx.capacity_gib": 4800}),
        Case({"fsx.capacity_gib": 0}),
        Case({"fsx.throughput_mbps_per_tib": 200}, {"fsx.throughput_mbps_per_tib": 125}),
    ],
    "V10": [
        Case(
            {"fsx.data_repositories.8": {"path": "/p8", "prefix": "p8"}},
            {"fsx.data_repositories": [{"path": f"/p{n}", "prefix": f"p{n}"} for n in range(8)]},
        ),
        Case(
            {"fsx.data_repositories.1.path": "/a/b"},
            {"fsx.data_repositories": [{"path": "/a", "prefix": "a"}, {"path": "/ab", "prefix": "b"}]},
        ),
        Case(
            {"fsx.data_repositories.1.prefix": "a"},
            {"fsx.data_repositories": [{"path": "/a", "prefix": "a"}, {"path": "/b", "prefix": "b"}]},
        ),
        Case(
            {"fsx.data_repositories.1.path": "/a-b"},
            {"fsx.data_repositories": [{"path": "/a/b", "prefix": "a"}, {"path": "/a-c", "prefix": "b"}]},
        ),
        Case(
            {"fsx.data_repositories.1.prefix": "x"},
            {"fsx.data_repositories": [{"path": "/a", "prefix": "x/y"}, {"path": "/b", "prefix": "x/yz"}]},
        ),
    ],
    "V11": [Case({f"{NODES}.count": 210}, {f"{NODES}.count": 190})],
    "V12": [
        Case(
            {f"{HEADS}.type_facts.pod_cap": 8},
            {f"{HEADS}.instance_type": "ml.new.xlarge", f"{HEADS}.type_facts": TYPE | {"pod_cap": 9}},
        )
    ],
    "V13": [
        Case({f"{CLUSTER}.head.cpu": 4}, {f"{CLUSTER}.head.cpu": 3}),
        Case({f"{CLUSTER}.head.memory_gib": 30}, {f"{CLUSTER}.head.memory_gib": 28}),
        Case({f"{CLUSTER}.head.memory_gib": 29}, {f"{CLUSTER}.autoscaling": {}, f"{CLUSTER}.head.memory_gib": 28}),
        Case({f"{WORKERS}.cpu": 96}, {f"{WORKERS}.cpu": 90}),
        Case({f"{WORKERS}.memory_gib": 2000}, {f"{WORKERS}.memory_gib": 1800}),
        Case({f"{WORKERS}.accelerators": 9}, {f"{WORKERS}.accelerators": 8}),
        Case({f"{WORKERS}.efa": 33}, {f"{WORKERS}.efa": 32}),
    ],
    "V14": [
        Case({"ray.version": "2.43.0"}),
        Case({"ray.version": "2.56.1"}),
        Case({"ray.version": "2.43.0"}, {"image": {"uri": f"{REGISTRY}/ray:v7"}, "ray.version": "2.56.1"}),
        Case({"image.uri": f"{REGISTRY}/ray:2.43.0"}, {"image": {"uri": f"{REGISTRY}/ray:2.42.1-py310"}}),
        Case({"image.uri": f"{REGISTRY}/ray:ray-2.9.3"}, {"image": {"uri": f"{REGISTRY}/ray:v7"}}),
    ],
    "V15": [
        Case(
            {f"{CLUSTER}.head.instance_group": "spare"},
            {
                "hyperpod.instance_groups.2": {"name": "spare", "instance_type": "ml.g5.8xlarge", "count": 2},
                f"{HEADS}.count": 2,
            },
        )
    ],
    "V16": [
        Case({"project": "a" * 27}, {"project": "a" * 26}),
        Case(
            {key: f"a{value}" for key, value in LONGEST_PATTERN.items() if key != "company"}
            | {"company.name_pattern": f"a{LONGEST_PATTERN['company']['name_pattern']}"},
            LONGEST_PATTERN,
        ),
    ],
    "V17": [
        Case({f"{HEADS}.lifecycle_scripts": folder})
        for folder in ("lifecycle_scripts/gone", "handlers", "/etc", "../..", "", "x" * 5000)
    ],
    "V18": [
        Case({f"{HEADS}.volume_gib": 0}, {f"{HEADS}.volume_gib": 1}),
        Case({f"{HEADS}.volume_gib": 16385}, {f"{HEADS}.volume_gib": 16384}),
    ],
    "V19": [
        Case({"fsx.reclaim_policy": "Recycle"}, {"fsx.provisioning": "dynamic", "fsx.reclaim_policy": "Retain"}),
        Case({"fsx.reclaim_policy": "Retain"}),
        Case(
            {"fsx.reclaim_policy": GONE},
            {"protect": True, "fsx.provisioning": "dynamic", "fsx.reclaim_policy": "Retain"},
        ),
    ],
    "V20": [
        Case({"kuberay.version": "1.2.0"}, {"kuberay.version": "1.6.2"}),
        Case({"kuberay.version": "1.2.0"}, {"kuberay": GONE, "versions": "current", "ray.version": GONE}),
    ],
    "V21": [
        Case({"hyperpod.sub_charts": [chart]}, {"hyperpod.sub_charts": ["cluster-role-and-bindings"]})
        for chart in ("inferenceOperators", "storage", "cert-manager", "mpi-operator", "no-such-chart")
    ],
    "V22": [
        Case(
            {f"{CLUSTER}.head.node_selector": {"node.kubernetes.io/instance-type": wrong}},
            {f"{CLUSTER}.head.node_selector": {"node.kubernetes.io/instance-type": "ml.m5.2xlarge"}},
        )
        for wrong in ("m5.2xlarge", "ml.p5.48xlarge")
    ],
    "V23": [
        Case({"network.zones": ["usw2-az2"]}),
        Case({"network.zones": ["usw2-az2", "usw2-az2"]}),
        Case({"network.zones": ["usw2-az2", "usw2-az1", "usw2-az3", "usw2-az4"]}),
        Case({"network.zones": GONE}),
        Case({"network.zones": GONE}, SLURM | {"network.zones": ["usw2-az2"]}),
    ],
    "V24": [
        Case({"network.vpc_cidr": "10.0.0.0/15"}, {"network.vpc_cidr": "10.0.0.0/16"}),
        Case({"network.vpc_cidr": "172.17.0.0/16"}, {"network.vpc_cidr": "172.18.0.0/16"}),
    ],
    "V25": [
        Case(
            {"hyperpod.instance_groups.2.name": "head-group"},
            {"hyperpod.instance_groups.2": {"name": "more", "instance_type": "ml.m5.2xlarge", "count": 1}},
        )
    ],
    "V26": [
        Case({"eks.system_nodes": {"instance_type": kind}}, {"eks.system_nodes": {"instance_type": "m6in.large"}})
        for kind in ("m7g.xlarge", "c7gn.2xlarge", "t4g.large")
    ],
    "V27": [
        Case({f"{CLUSTER}.head.instance_group": "heads"}, {f"{HEADS}.count": 2}),
        Case({f"{WORKERS}.instance_group": "workers"}),
    ],
    "V28": [
        Case({f"{WORKERS}.replicas": 0}, {f"{WORKERS}.replicas": 1}),
        Case({f"{WORKERS}.max_replicas": 3}, {f"{WORKERS}.max_replicas": 4}),
        Case({f"{WORKERS}.min_replicas": 11}),
    ],
    "V29": [Case({"hyperpod.confirm_group_removal": ["head-group"]}, {"hyperpod.confirm_group_removal": ["former"]})],
    "V30": [
        Case(
            {f"{NODES}.count": 1},
            {f"{NODES}.count": 2, f"{WORKERS}.replicas": 1},
        )
    ],
    "V31": [
        Case({f"{HEADS}.labels": {"kubernetes.io/role": "head"}}, {f"{HEADS}.labels": {"team": "a"}}),
        Case({f"{HEADS}.labels": {"node.k8s.io/x": "b"}}, {f"{HEADS}.labels": {"example.com/x": "b"}}),
        Case({f"{HEADS}.labels": {"sagemaker.amazonaws.com/x": "b"}}),
        Case(
            {f"{HEADS}.labels": {f"l{n}": "" for n in range(51)}}, {f"{HEADS}.labels": {f"l{n}": "" for n in range(50)}}
        ),
        Case(
            {f"{HEADS}.taints": [{"key": "node.kubernetes.io/x", "effect": "NoSchedule"}]},
            {f"{HEADS}.taints": [{"key": "team", "effect": "NoSchedule"}]},
        ),
        Case(
            {f"{HEADS}.taints.1.effect": "NoSchedule"},
            {f"{HEADS}.taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]},
        ),
    ],
    "V32": [Case({f"{HEADS}.zone": "usw2-az3"}, {f"{HEADS}.zone": "usw2-az1"})],
    "V33": [
        Case(
            {f"{NODES}.zone": GONE},
            {
                f"{NODES}.zone": "usw2-az2",
                f"{NODES}.training_plan": "arn:aws:sagemaker:us-west-2:111122223333:training-plan/plan",
            },
        )
    ],
    "V34": [
        Case(
            {f"{NODES}.training_plan": f"arn:aws:sagemaker:{place}:training-plan/plan"},
            {
                f"{NODES}.zone": "usw2-az2",
                f"{NODES}.training_plan": "arn:aws:sagemaker:us-west-2:111122223333:training-plan/plan",
            },
        )
        for place in ("us-east-1:111122223333", "us-west-2:444455556666")
    ]
    + [
        Case(
            {
                "eks.existing.oidc_provider_arn": (
                    "arn:aws:iam::444455556666:oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/0123"
                )
            },
            EXISTING_EKS,
        )
    ],
    "V35": [Case({"region": "cn-north-1"})],
    "V36": [
        Case(
            ELSEWHERE,
            {"fsx.efa": True, "fsx.capacity_gib": 4800, "fsx.throughput_mbps_per_tib": 1000},
        )
    ],
    "V37": [
        Case({"network.zones": ["usw2-az2", "use1-az1"]}),
        Case(
            {"network.zones": ["use1-az1", "use1-az3"]},
            {"region": "us-east-1", "network.zones": ["use1-az1", "use1-az2"]},
        ),
        Case(
            {"network.zones": ["apne1-az1", "apse1-az2"]},
            {"region": "ap-northeast-1", "network.zones": ["apne1-az1", "apne1-az2"]},
        ),
        Case({"network.existing.node_subnets.1.zone": "use1-az1"}, EXISTING_VPC),
    ],
    "V38": [
        Case({f"network.{key}": value}, EXISTING_VPC)
        for key, value in (("vpc_cidr", "10.192.0.0/16"), ("zones", ["usw2-az2"]), ("nat_gateways", "one"))
    ],
    "V39": [
        Case({f"network.existing.{key}": value}, EXISTING_VPC)
        for key, value in (
            ("node_subnets.1.cidr", "10.30.0.0/18"),
            ("node_subnets.1.id", SUBNETS[0]["id"]),
            ("node_subnets.1.cidr", "10.20.96.0/19"),
            ("node_subnets.1.zone", "usw2-az2"),
            ("control_plane_subnets.1.zone", "usw2-az2"),
        )
    ],
    "V40": [
        Case(
            change,
            {
                "network.nat_gateways": "none",
                "image_registry": f"{REGISTRY}/mirror",
                "image": {"uri": f"{REGISTRY}/ray"},
            },
        )
        for change in (
            {"image_registry": GONE},
            {"image": {"repository": "ray"}},
            {"image_registry": "docker.io/library"},
            {"image.uri": f"{REGISTRY.replace('west', 'east')}/ray"},
        )
    ],
    "V41": [
        Case({"eks.public_access_cidrs": GONE}),
        Case({"eks.endpoint_access": "private"}, {"eks.endpoint_access": "public-and-private"}),
        Case(
            {"eks.public_access_cidrs": ["203.0.113.0/24"]},
            {"eks.endpoint_access": "private", "eks.public_access_cidrs": GONE},
        ),
        Case({"eks.public_access_cidrs": ["10.8.0.0/16"]}, {"eks.public_access_cidrs": ["11.8.0.0/16"]}),
        Case({"eks.public_access_cidrs": ["172.31.0.0/16"]}, {"eks.public_access_cidrs": ["172.32.0.0/16"]}),
        Case({"eks.public_access_cidrs": ["192.168.1.0/24"]}, {"eks.public_access_cidrs": ["192.0.2.0/24"]}),
        Case({"eks.public_access_cidrs": ["100.64.0.1/32"]}, {"eks.public_access_cidrs": ["100.63.0.1/32"]}),
        Case({"eks.public_access_cidrs.1": "127.0.0.1/32"}),
        Case({"eks.public_access_cidrs.1": "169.254.0.0/16"}),
        Case({"eks.public_access_cidrs": ["0.0.0.0/1"]}, {"eks.public_access_cidrs": ["128.0.0.0/3"]}),
    ],
    "V42": [
        Case({"eks.public_access_cidrs": ["0.0.0.0/0"]}, {"eks.public_access_cidrs": ["203.0.113.7/32"]}),
        Case(
            {"eks.public_access_cidrs": ["0.0.0.0/1", "128.0.0.0/1"]},
            {"eks.public_access_cidrs": ["203.0.113.0/25", "203.0.113.128/25"]},
        ),
    ],
    "V43": [
        Case({"network": {"zones": ["usw2-az2", "usw2-az1"]}}, EXISTING_EKS),
        Case({"eks.endpoint_access": "private"}, EXISTING_EKS),
        Case({"eks.public_access_cidrs": []}, EXISTING_EKS),
        Case({"eks.add_ons": []}, EXISTING_EKS),
    ],
    "V44": [
        Case({"eks.add_ons": [{"name": "aws-fsx-csi-driver"}]}, {"eks.add_ons": [{"name": "metrics-server"}]}),
        Case({"eks.add_ons": [{"name": "vpc-cni"}, {"name": "vpc-cni"}]}, {"eks.add_ons": [{"name": "vpc-cni"}]}),
        Case(
            {"observability": {"container_insights": {}}},
            {"eks.add_ons": [{"name": "amazon-cloudwatch-observability"}]},
        ),
        Case(
            {"observability": {"hyperpod": {}}},
            {"eks.add_ons": [{"name": "amazon-sagemaker-hyperpod-observability"}]},
        ),
    ],
    "V45": [
        Case({"ray.namespace": "kube-system"}),
        Case({"ray.namespace": "image-build"}),
        Case({"ray.namespace": "mpi-operator"}),
        Case({"kuberay.namespace": "aws-hyperpod"}),
        *(
            Case({"ray.namespace": name})
            for name in ("kueue-system", "hyperpod-observability", "hyperpod-ray", "cert-manager", "amazon-cloudwatch")
        ),
        Case(
            {"ray.namespace": "team-agent"},
            {"eks.add_ons": [{"name": "agent", "namespace": "team-agent"}], "ray.namespace": "team"},
        ),
        Case({"ray.namespace": "kuberay"}),
        Case({"ray.namespace": "training", "kuberay.namespace": "training-volume"}),
    ],
    "V46": [
        Case({"access.submitters": ["arn:aws:iam::111122223333:role/PlatformAdmin"]}),
        Case({"access.viewers": ["arn:aws:iam::111122223333:role/RaySubmitter"]}),
    ],
    "V47": [
        Case(
            {"fsx.capacity_gib": 2400},
            {"fsx.efa": True, "fsx.capacity_gib": 4800, "fsx.throughput_mbps_per_tib": 1000},
        )
    ],
    "V48": [
        Case(
            {"fsx.data_repositories": [{"path": "/a", "prefix": "a"}]},
            {"fsx.provisioning": "dynamic"},
        ),
        Case(
            {"fsx.provisioning": "dynamic"},
            EXISTING_VPC | {"fsx": {"existing": {"id": "fs-0123456789abcdef0", "mount_name": "abcdefgh"}}},
        ),
        *(
            Case(
                {f"fsx.{key}": value},
                EXISTING_VPC | {"fsx": {"existing": {"id": "fs-0123456789abcdef0", "mount_name": "abcdefgh"}}},
            )
            for key, value in (("throughput_mbps_per_tib", 250), ("compression", "LZ4"), ("data_repositories", []))
        ),
    ],
    "V49": [Case({"kuberay.version": "1.6.0"}, {"kuberay.version": "1.4.2"})],
    "V50": [
        Case({"image.uri": f"{REGISTRY}/ray"}, {"image": {"repository": "ray"}}),
        Case({"image.repository": "ray"}, {"image": {"uri": f"{REGISTRY}/ray"}}),
        Case({"image": {}}),
    ],
    "V51": [
        Case({"image.pip": [requirement]}, {"image.pip": ["einops[extra]==0.8.1"]})
        for requirement in ("einops", "einops>=0.8", "git+https://example.com/x==1", "einops == 0.8.1", "-r x==1")
    ]
    + [
        Case({"image.pip": ["Einops==0.8.1", "einops==0.8.0"]}),
        Case({"image.pip": ["einops==0.8.1"]}, {"image": {"uri": f"{REGISTRY}/ray"}}),
    ],
    "V52": [
        Case({f"{CLUSTER}.head.cpu": 1}, {f"{CLUSTER}.head.cpu": 2}),
        Case({f"{CLUSTER}.head.memory_gib": 7}, {f"{CLUSTER}.head.memory_gib": 8}),
    ],
    "V53": [
        Case({f"{WORKERS}.replicas": 5}, {f"{WORKERS}.replicas": 4}),
        Case({"ray.clusters.1.workers.0.replicas": 1}, {"ray.clusters.1": SECOND_CLUSTER, f"{HEADS}.count": 2}),
    ],
    "V54": [Case({f"{NODES}.count": 0}, {f"{NODES}.count": 4, f"{NODES}.deep_health_checks": []})],
    "V55": [
        Case(
            {"ray.clusters.2": SECOND_CLUSTER | {"name": "third"}},
            {"ray.clusters.1": SECOND_CLUSTER, f"{CLUSTER}.head.cpu": 3, f"{HEADS}.count": 2},
        ),
    ],
    "V56": [Case({f"{HEADS}.count": 1}, {f"{HEADS}.count": 2})],
    "V57": [
        Case({f"{CLUSTER}.env": {"NVIDIA_VISIBLE_DEVICES": "all"}}, {f"{CLUSTER}.env": {"NCCL_DEBUG": "INFO"}}),
        Case(
            {f"{CLUSTER}.secrets.0.env": "RAY_ADDRESS"},
            {f"{CLUSTER}.secrets": [{"env": "TOKEN", "secret": "hub", "key": "token"}]},
        ),
    ],
    "V58": [
        Case(
            {f"{CLUSTER}.env": {"HUB_URL": "x"}},
            {f"{CLUSTER}.secrets": [{"env": "HUB_URL", "secret": "hub", "key": "url"}]},
        )
    ],
    "V59": [
        Case({"fsx.mount_path": path}, {"fsx.mount_path": "/shared"})
        for path in ("/tmp/ray", "/dev/shm/x", "/tmp", "/usr", "/home/ray", "/x/../etc")
    ]
    + [
        Case({f"{CLUSTER}.volumes.0.mount_path": path}, {f"{CLUSTER}.volumes": [{"claim": "a", "mount_path": "/a"}]})
        for path in ("/fsx", "/fsx/a", "/dev/shm")
    ]
    + [
        Case({f"{CLUSTER}.volumes.0.claim": "fsx-claim"}, {f"{CLUSTER}.volumes": [{"claim": "a", "mount_path": "/a"}]}),
    ],
    "V60": [
        Case(
            {f"{NODES}.instance_type": "ml.g5.4xlarge"},
            {"fsx.efa": True, "fsx.capacity_gib": 4800, "fsx.throughput_mbps_per_tib": 1000},
        )
    ],
    "V61": [
        Case(
            {f"{CLUSTER}.workers.1.name": "gpu-group"},
            {f"{CLUSTER}.workers.1": SECOND_GROUP | {"name": "more"}},
        ),
        Case({f"{WORKERS}.name": "headgroup"}),
    ],
    "V62": [
        Case({f"{WORKERS}.name": "b" * 31}, {f"{CLUSTER}.name": "a" * 20, f"{WORKERS}.name": "b" * 29}),
    ],
    "V63": [
        Case(
            {f"{WORKERS}.min_replicas": 4, f"{WORKERS}.max_replicas": 4},
            {f"{CLUSTER}.autoscaling": {"idle_timeout_seconds": 60}},
        )
    ],
    "V66": [
        Case(
            {"ray.clusters.1.name": "rayml"},
            {"ray.clusters.1": SECOND_CLUSTER, f"{HEADS}.count": 2},
        )
    ],
    "V67": [
        Case(
            {f"{NODES}.instance_type": "ml.trn1.32xlarge"},
            {"network.nat_gateways": "none", "image_registry": f"{REGISTRY}/mirror", "image.uri": f"{REGISTRY}/ray"},
        )
    ],
    "V68": [
        Case(
            {f"{NEURON}.taints": [{"key": "team", "effect": "NoSchedule"}]},
            {
                NEURON: {"name": "neuron", "instance_type": "ml.trn1.32xlarge", "count": 1},
                f"{NEURON}.taints": [
                    {"key": "aws.amazon.com/neuron", "effect": "NoSchedule"},
                    {"key": "team", "effect": "PreferNoSchedule"},
                ],
            },
        )
    ],
    "V69": [
        Case({"kuberay.version": "1.4.2"}, {"kuberay.version": "1.2.0"}),
        Case({"versions": "current"}, {"versions": "fixed", "ray.version": GONE, "kuberay": GONE}),
    ],
    "V70": [Case({"region": region}) for region in ("us-west-3", "eu-west-9", "xx-east-1")],
    "V71": [
        Case({"network.vpc_cidr": "10.100.0.0/16"}, {"network.vpc_cidr": "10.101.0.0/16"}),
        Case({"network.vpc_cidr": "172.20.0.0/16"}, {"network.vpc_cidr": "172.21.0.0/16"}),
    ],
    "V72": [
        Case({"network.vpc_cidr": "52.94.0.0/16"}, {"network.vpc_cidr": "100.64.0.0/16"}),
        Case({"network.vpc_cidr": "172.32.0.0/16"}, {"network.vpc_cidr": "172.31.0.0/16"}),
        Case({"network.vpc_cidr": "192.169.0.0/16"}, {"network.vpc_cidr": "192.168.0.0/16"}),
    ],
    "V73": [Case({f"{CLUSTER}.env": {"HUB": value}}, {f"{CLUSTER}.env": {"HUB": value[:6]}}) for value in SECRETS],
    "V74": [
        Case({f"{CLUSTER}.env": {name: "0123"}}, {f"{CLUSTER}.env": {name: "", f"{name}_PATH": "/fsx/x"}})
        for name in ("HF_TOKEN", "token", "WANDB_API_KEY", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "SSH_PRIVATE_KEY")
    ],
    # This rule reads a file of the project: test_requirements.py tests it.
    "V75": [],
    "V76": [
        Case(
            {f"{NODES}.instance_type": "ml.p5e.48xlarge"},
            {"region": "us-east-1", "network.zones": ["use1-az1", "use1-az2"], f"{NODES}.zone": "use1-az1"},
        ),
        Case(
            {f"{NODES}.instance_type": "ml.p5.4xlarge", f"{NODES}.deep_health_checks": []},
            {
                "region": "ca-central-1",
                "network.zones": ["cac1-az1", "cac1-az2"],
                f"{NODES}.deep_health_checks": [],
                f"{NODES}.instance_type": "ml.p5.48xlarge",
            },
        ),
        Case({f"{NODES}.instance_type": "ml.trn2.48xlarge"}),
        Case(
            {"eks.system_nodes": {"instance_type": "p5e.48xlarge"}},
            {"eks.system_nodes": {"instance_type": "x9z.large"}} | US_EAST,
        ),
    ],
    "V77": [Case({f"{HEADS}.count": 0}, {f"{HEADS}.count": 1})],
    "V78": [Case({f"{CLUSTER}.autoscaling": {}})],
    "V79": [
        *(
            Case(
                {"eks.add_ons": [{"name": "vpc-cni", "version": broken}]},
                {"eks.add_ons": [{"name": "vpc-cni", "version": kept}, {"name": "metrics-server", "version": broken}]},
            )
            for broken, kept in (
                ("v1.22.0-eksbuild.1", "v1.21.2-eksbuild.2"),
                ("v1.22.3-eksbuild.1", VPC_CNI),
                ("v1.18.2-eksbuild.1", "v1.18.3-eksbuild.1"),
                ("v1.9.3-eksbuild.1", "v1.23.0-eksbuild.1"),
            )
        ),
        Case({"eks.existing.vpc_cni": "v1.22.1-eksbuild.2"}, EXISTING_EKS),
        Case({"eks.existing.vpc_cni": "v1.18.2-eksbuild.1"}, EXISTING_EKS),
    ],
    "V80": [
        Case(
            {"company": {"permissions_boundary": "arn:aws:iam::444455556666:policy/Boundary"}},
            {"company": {"permissions_boundary": f"arn:aws:iam::{owner}:policy/Boundary"}},
        )
        for owner in ("111122223333", "aws")
    ],
    "V81": [
        Case({"company": {"tags": {"Project": "ml"}}}, {"company": {"tags": {"Projects": "ml"}}}),
        Case({"company": {"tags": {"AWS:team": "ml"}}}, {"company": {"tags": {"team:aws": "ml"}}}),
        Case({"company": {"tags": {f"key-{n}": "value" for n in range(41)}}}),
    ],
    "V82": [
        Case(
            {"company": {"kms_key": f"arn:aws:kms:{place}:key/{id}"}},
            {"company": {"kms_key": f"arn:aws:kms:us-west-2:111122223333:key/{id}"}},
        )
        for id in (KEY_ID, f"mrk-{'0' * 32}")
        for place in ("eu-west-1:111122223333", "us-west-2:444455556666")
    ],
    "V83": [
        Case({"company.name_pattern": "acme-{project}-{name}"}, BY_PATTERN),
    ],
    "V84": [
        *(
            Case({"hyperpod.cluster_name": name}, BY_PATTERN)
            for name in ("ml-cluster", "acme-ml-cluster", "x-acme-dev-ml-cluster")
        ),
        Case({"image.repository": "aws-ray-custom"}, BY_PATTERN),
    ],
    "V85": [
        Case({"fsx.checkpoints.keep": 4}, {"fsx.checkpoints": {"parameters": "20B", "every_minutes": 300}}),
    ],
    "V86": [
        Case({"fsx.checkpoints.every_minutes": 45}, {"fsx.checkpoints": {"parameters": "7B", "every_minutes": 50}}),
    ],
    "V87": [
        Case({f"{HEADS}.slurm": {"node": "compute"}}),
        Case({"eks": {"public_access_cidrs": ["203.0.113.0/24"]}}, SLURM),
        Case({"image": {"repository": "ray"}}, SLURM),
        Case({"access": {"admins": ["arn:aws:iam::111122223333:role/Admin"]}}, SLURM),
        Case({"kuberay": {"version": "1.2.0"}}, SLURM),
        Case({"aws_ray": {"tiered_checkpoints": True}}, SLURM),
        Case({"observability": {"in_cluster": {}}}, SLURM),
        Case({"image_registry": REGISTRY}, SLURM),
    ],
    "V88": [
        Case({f"{HEADS}.count": 2}, SLURM),
        Case({f"{HEADS}.slurm": GONE}, SLURM),
        Case({f"{NODES}.slurm.node": "controller"}, SLURM),
        Case({f"{HEADS}.slurm.node": "compute"}, SLURM),
        Case({"hyperpod.instance_groups": [CONTROLLER, LOGIN]}, SLURM),
        Case(
            {
                "hyperpod.instance_groups": [
                    CONTROLLER,
                    LOGIN,
                    LOGIN | {"name": "other", "slurm": {"node": "login"}},
                    COMPUTE,
                ]
            },
            SLURM,
        ),
    ],
    "V89": [
        Case({f"{HEADS}.slurm": {"node": "controller", "partition": "dev"}}, SLURM),
        Case({f"{NODES}.slurm": {"node": "login", "partition": "dev"}}, SLURM),
        Case({f"{NEURON}.slurm": {"node": "compute"}}, BY_SCRIPTS),
    ],
    "V90": [
        Case({f"{NEURON}.labels": {"team": "a"}}, SLURM),
        Case({f"{NEURON}.taints": [{"key": "team", "effect": "NoSchedule"}]}, SLURM),
        Case({f"{NEURON}.deep_health_checks": ["InstanceStress"]}, SLURM),
        Case({f"{NEURON}.sleep": {}}, SLURM),
        Case({"fsx.provisioning": "dynamic"}, SLURM),
        Case({"fsx.claim": "fsx-claim"}, SLURM),
        Case({"hyperpod.sub_charts": ["cluster-role-and-bindings"]}, SLURM),
        Case({"hyperpod.tiered_storage": {}}, SLURM),
        Case({"network.nat_gateways": "none"}, SLURM),
    ],
    "V91": [
        Case({f"{HEADS}.lifecycle_scripts": WITH_PARAMETERS}, SLURM),
        Case({f"{HEADS}.lifecycle_scripts": WITH_PARAMETERS}, BY_SCRIPTS),
    ],
    "V92": [
        Case({f"{NEURON}.min_count": 1}, BY_SCRIPTS),
    ],
    "V93": [
        Case({"hyperpod.tiered_storage.memory_percent": 80}, TIERED),
        Case({"ray.clusters.0.workers.0.memory_gib": 1800}, {**TIERED, "ray.clusters.0.workers.0.memory_gib": 1400}),
    ],
    "V94": [
        Case({"image.pip": ["einops==0.8.1"]}, TIERED),
    ],
    "V95": [
        Case(
            {"observability": {"in_cluster": {"storage_gib": 51}}},
            {"observability": {"in_cluster": {"storage_gib": 50}}},
        ),
        Case({"eks.system_nodes": {"volume_gib": 119}}, {"observability": {"in_cluster": {}}}),
    ],
    "V96": [
        Case({"slurm.managed_policy": True}, SLURM),
    ],
    "V97": [
        *(
            Case({"eks.add_ons": [{"name": name, "configuration": broken}]}, {"eks.add_ons": [{"name": name} | kept]})
            for name, broken, kept in (
                ("coredns", {"replicaCount": "2"}, {"configuration": {"replicaCount": 2}}),
                ("coredns", {"resources": {"limits": {"cpu": 1}}}, {"configuration": {"nodeSelector": {"a": "b"}}}),
                ("vpc-cni", {"env": {"WARM_IP_TARGET": 5}}, {"configuration": {"env": {"WARM_IP_TARGET": "5"}}}),
                ("vpc-cni", {"enableNetworkPolicy": "false"}, {"configuration": {"enableNetworkPolicy": "true"}}),
            )
        ),
        Case(
            {"eks.add_ons": [{"name": "metrics-server", "namespace": "metrics"}]},
            {"eks.add_ons": [{"name": "agent", "namespace": "metrics", "configuration": {"any": ["thing"]}}]},
        ),
        Case(
            {"eks.add_ons": [{"name": "agent", "role": {"policies": [READ_ONLY]} | NAMED}]},
            {"eks.add_ons": [{"name": "agent", "namespace": "agents", "role": {"policies": [READ_ONLY]} | NAMED}]},
        ),
        Case(
            {"eks.add_ons": [{"name": "metrics-server", "role": {"policies": [READ_ONLY]}}]},
            {"eks.add_ons": [{"name": "aws-ebs-csi-driver", "role": {"policies": [READ_ONLY]}}]},
        ),
        Case(
            {"eks.add_ons": [{"name": "vpc-cni", "role": {"policies": ["arn:aws:iam::444455556666:policy/Cni"]}}]},
            {"eks.add_ons": [{"name": "vpc-cni", "role": {"policies": ["arn:aws:iam::111122223333:policy/Cni"]}}]},
        ),
    ],
    "V98": [
        Case({"eks.add_ons": [{"name": "coredns", "configuration": {"replicas": 2}}]}),
        Case({"eks.add_ons": [{"name": "vpc-cni", "configuration": {"env": {"WARM_TARGET": "5"}}}]}),
    ],
    "V99": [
        *(
            Case(
                {"observability": {"alerts": {key: [receiver]}}},
                {"observability": {"alerts": {key: [receiver]}, part: {}}},
            )
            for key, receiver, part in (
                ("emails", "ml@example.com", "container_insights"),
                ("https", "https://alerts.example.com", "in_cluster"),
            )
        ),
        Case(
            {"observability.alerts": {"emails": ["ml@example.com", "ml@example.com"]}},
            {"observability": {"container_insights": {}}},
        ),
        Case({"observability": {"alerts": {"emails": ["ml@example.com"]}}}),
        Case(
            {f"{NODES}.instance_type": "ml.g5.2xlarge"},
            {"observability": {"hyperpod": {}}, f"{NODES}.instance_type": "ml.g5.4xlarge", **WITHOUT_CHECKS},
        ),
    ],
    "V100": [
        Case({"image.pip": ["einops==0.8.1"]}, {"mlflow": "managed", "image.pip": ["sagemaker-mlflow==0.5.0"]}),
        Case({"mlflow": "managed"}, {"mlflow": "http://mlflow.mlflow.svc:5000"}),
    ],
    "V102": [
        Case({GRAFANA: ["10.8.0.0/16"]}, watched_from("11.8.0.0/16")),
        Case({f"{GRAFANA}.1": "203.0.113.0/24"}, watched_from("203.0.113.0/24")),
        Case({GRAFANA: ["0.0.0.0/1", "128.0.0.0/1"]}, watched_from("128.0.0.0/3")),
        Case(
            {"region": "eu-north-1", "network.zones": ["eun1-az1", "eun1-az2"]},
            watched_from("203.0.113.0/24"),
        ),
    ],
    "V103": [
        Case(
            {"region": "eu-north-1", "network.zones": ["eun1-az1", "eun1-az2"]},
            {"notifications": {"email": "ml@example.com", "monthly_budget_usd": 9_999_999}},
        ),
    ],
    "V104": [
        Case(
            {"notifications": {"email": "ml@example.com", "monthly_budget_usd": 1}},
            {"notifications": {"email": "ml@example.com", "monthly_budget_usd": 9_999_999}},
        ),
    ],
    "V105": [Case({f"{WORKERS}.accelerators": idle}, {f"{WORKERS}.accelerators": 8}) for idle in (0, 3, 7)],
    "V106": [
        *(
            Case({f"{NODES}.instance_type": name}, {f"{NODES}.instance_type": "ml.p5.48xlarge"})
            for name in ("ml.p6-b200.48xlarge", "ml.g7e.48xlarge")
        ),
        Case(
            {"image": {"repository": "ray"}},
            {f"{NODES}.instance_type": "ml.p6-b200.48xlarge", "image": {"uri": f"{REGISTRY}/ray"}},
        ),
        Case(
            {"versions": "fixed"},
            {f"{NODES}.instance_type": "ml.p6-b200.48xlarge", "versions": "current", "ray.version": GONE},
        ),
    ],
    "V107": [Case({"account": "0" * 12})],
    "V108": [
        Case({"access.admins": []}),
        Case({"access": GONE}),
        Case({"eks": {"public_access_cidrs": ["203.0.113.0/24"]}}, EXISTING_EKS | {"access.admins": []}),
    ],
    "V110": [
        Case({"eks.version": "1.33"}),
        Case({"eks.version": "1.32"}, {"eks.version": "1.34"}),
        Case({"eks.version": "1.33"}, EXISTING_EKS),
    ],
    "V111": [
        Case({"versions": "walkthrough"}, {"versions": "fixed", "ray.version": GONE}),
        Case({"ray.version": "2.42.1"}, {"image": {"uri": f"{REGISTRY}/ray:v7"}, "ray.version": "2.56.1"}),
    ],
    "V112": [
        Case({"ray.clusters.0.env": {"RAY_AUTH_MODE": "token"}}, {"ray.clusters.0.env": {"RAY_AUTH_MODE": "disabled"}}),
        Case({"versions": "fixed", "ray.version": GONE, "ray.clusters.0.env": {"RAY_AUTH_MODE": "token"}}),
    ],
    "V113": [
        Case({f"{HEADS}.sleep": {}}),
        Case({f"{NODES}.min_count": 1}, ASLEEP),
        Case(
            {f"{NODES}.training_plan": "arn:aws:sagemaker:us-west-2:111122223333:training-plan/p5"},
            ASLEEP | {f"{NODES}.zone": "usw2-az2"},
        ),
    ],
    "V114": [
        Case({f"{NODES}.sleep": {"min": 4}}, WITHOUT_CHECKS | {f"{NODES}.sleep": {"min": 3}}),
        *(Case({f"{NODES}.sleep": {"after": time}}, WITHOUT_CHECKS) for time in ("1m", "9m")),
        *(
            Case({f"{NODES}.sleep.hours": hours}, WITHOUT_CHECKS | {f"{NODES}.sleep": {"hours": "Sat 00:00-24:00 UTC"}})
            for hours in (
                "Mon-Fri 19:00-07:00 Europe/Berlin",
                "Mon 07:00-07:00 UTC",
                "Mon 07:00-19:00 Europe/Berlln",
                "Mon 07:00-19:00 Europe",
                "Mon 07:00-19:00 /UTC",
            )
        ),
    ],
    "V115": [Case({f"{NODES}.sleep": {}}, WITHOUT_CHECKS | {f"{CLUSTER}.autoscaling": {}})],
    "V116": [Case({f"{NODES}.deep_health_checks": ["InstanceStress"]}, ASLEEP)],
    "V117": [
        *(Case(change, STANDING_IN) for change in ({f"{NODES}.sleep": {"wake": [name]}} for name in OTHER_NAMES)),
        Case({f"{NODES}.sleep": {"wake": ["spare", "spare"]}}, STANDING_IN),
        Case({f"{NODES}.sleep": {"wake": ["spare"], "min": 1}}, STANDING_IN),
        *(
            Case({THIRD: SPARE | change}, STANDING_IN)
            for change in (
                {"instance_type": "ml.p4d.24xlarge"},
                {"zone": "usw2-az1"},
                {"threads_per_core": 2},
                {"labels": {"team": "a"}},
                {"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]},
                {"sleep": None},
            )
        ),
        Case({THIRD: SPARE | {"sleep": {"wake": ["fourth"]}}, FOURTH: SPARE | {"name": "fourth"}}, STANDING_IN),
        Case({"ray.clusters.0.workers.1": SECOND_GROUP | {"instance_group": "spare"}}, STANDING_IN),
        Case({FOURTH: SPARE | {"name": "fourth", "sleep": {"wake": ["spare"]}}}, STANDING_IN),
    ],
}
