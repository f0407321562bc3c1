"""Add CloudTrail's LookupEvents: the CDK CLI calls it after a failed deployment, and moto lacks it."""

from typing import Any

from moto.cloudtrail.responses import CloudTrailResponse

from embedded_account.context import Account


def install(_account: Account) -> None:
    """Answer LookupEvents with an empty list: the embedded account keeps no trail.

    Without an answer the CDK CLI retries for 30 seconds.
    """

    def lookup_events(_response: Any) -> str:
        return '{"Events": []}'

    CloudTrailResponse.lookup_events = lookup_events
