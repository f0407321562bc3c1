"""What happens to data when its resource leaves a stack."""

from aws_cdk import RemovalPolicy


def data_removal_policy(*, protect: bool) -> RemovalPolicy:
    """Policy of resources that hold data.

    Protected, they survive a replacement or their removal from the template (a *failed creation* still cleans up,
    so that it can be tried again). Unprotected, nothing that costs money stays behind.
    """
    return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if protect else RemovalPolicy.DESTROY
