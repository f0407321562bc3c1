"""Serve an account with the role of Ray's pods, as the ray stack makes it: `python -m tests.support.deployed_ray_role`.

Jobs' tests have a Python environment of their own, without CDK and the embedded account. They start this program with
the project's: it prints one line of JSON, the variables of a pod's AWS clients, and serves until its input ends.
"""

import json
import sys
from pathlib import Path
from typing import Any

import boto3

from config import naming
from embedded_account.testing.plugin import served
from k8s_charts.shared.names import RAY_DATA_PREFIX, RAY_PACKAGES_PREFIX
from stacks.ray.roles import ray_role
from tests.support import assumed_role, stack_roles
from tests.support.stack_roles import DEV


def main(directory: Path) -> None:
    """Serve until the input ends."""
    bucket = naming.data_bucket(DEV)
    with served(directory) as server:
        account, keys = server.account, server.account.keys
        session: Any = boto3.Session(keys.access_key_id, keys.secret_access_key, region_name=DEV.region)

        def clients(service: str) -> Any:
            return session.client(service, endpoint_url=account.endpoint)

        s3 = clients("s3")
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": DEV.region})
        s3.put_object(Bucket=bucket, Key=f"{RAY_PACKAGES_PREFIX}/package.zip", Body=b"package")
        role = stack_roles.deploy(
            clients,
            directory / "assembly",
            lambda stack, cluster: ray_role(stack, cluster, DEV.ray.namespace, bucket),
        )
        variables = {
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ENDPOINT_URL": account.endpoint,
            "AWS_REGION": DEV.region,
            "RUN_STORAGE": f"s3://{bucket}/{RAY_DATA_PREFIX}/runs",
        }
        print(json.dumps({**assumed_role.credentials(clients, role), **variables}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
