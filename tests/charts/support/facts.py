"""Example values for facts that only a deployment knows; tests render the charts with them."""

from typing import Any

from k8s_charts.in_cluster.alertmanager import AlertFacts
from k8s_charts.platform_objects import PlatformFacts
from k8s_charts.ray_objects import ImageBuildFacts, RayFacts
from k8s_charts.storage.volumes import FileSystemAddress

Object = dict[str, Any]

PLATFORM_FACTS = PlatformFacts(
    fsx_csi_role_arn="arn:aws:iam::111122223333:role/csi",
    file_system_subnet_id="subnet-0123456789abcdef0",
    file_system_security_group_id="sg-0123456789abcdef0",
)
FILE_SYSTEM = FileSystemAddress("fs-0123456789abcdef0", "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com", "abcdefgh")
RAY_FACTS = RayFacts(
    file_system=FILE_SYSTEM,
    ray_role_arn="arn:aws:iam::111122223333:role/ray",
    image_build=ImageBuildFacts("arn:aws:iam::111122223333:role/builder", "s3://bucket/context.zip"),
    alerts=AlertFacts("arn:aws:sns:us-west-2:111122223333:alerts", "arn:aws:iam::111122223333:role/alertmanager"),
    sleeper_role_arn="arn:aws:iam::111122223333:role/sleeper",
)
