"""The removal policy of resources that hold data."""

from aws_cdk import RemovalPolicy


def data_removal_policy(*, protect: bool) -> RemovalPolicy:
    """Return the removal policy of resources that hold data.

    Protected resources survive a replacement or their removal from the template; a *failed creation* is still cleaned
    up, so that it can be retried. Unprotected resources are deleted, so that nothing that costs money stays behind.
    """
    return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if protect else RemovalPolicy.DESTROY
