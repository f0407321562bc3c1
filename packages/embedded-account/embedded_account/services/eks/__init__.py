"""EKS: clusters with a real Kubernetes control plane, which accepts the tokens of the real `aws eks get-token`.

moto keeps the records of clusters and node groups. This package adds the control plane behind a cluster, strict checks,
access entries and policies, add-ons, pod identity associations, nodes that join, and the CloudFormation models.
"""

import json
from functools import cache

import boto3
import moto.eks.utils as moto_utils

from embedded_account.context import Account
from embedded_account.kubernetes.running import RunningCluster
from embedded_account.services.eks import part_models
from embedded_account.services.eks.authenticator import install as install_authenticator
from embedded_account.services.eks.host import ClusterHost
from embedded_account.services.eks.models import install as install_models
from embedded_account.services.eks.routes import install as install_routes
from embedded_account.services.eks.service import EksService

__all__ = ["ClusterHost", "RunningCluster", "install", "part_models"]


def install(account: Account) -> None:
    """Install the account's cluster host, EKS's API routes, the CloudFormation models and the token webhook."""
    # For each role of a cluster or node group moto makes a session, which reads five megabytes of endpoints.
    moto_utils.Session = cache(boto3.Session)
    account.clusters = clusters = ClusterHost(account)
    account.at_end.callback(clusters.stop_all)
    service = EksService(account)
    install_routes(account, service)
    install_models(account)
    install_authenticator(account, service)
    account.routes.route("POST", "eks/prepare", lambda request, _: service.prepare_cluster(**json.load(request.stream)))
