"""CloudTrail: LookupEvents, which the CDK CLI asks after a failed deployment and moto lacks."""

from typing import Any

from moto.cloudtrail.responses import CloudTrailResponse

from embedded_account.context import Account


def install(_account: Account) -> None:
    """Answer LookupEvents with no events: the embedded account keeps no trail (without this the CLI retries 30 s)."""

    def lookup_events(_response: Any) -> str:
        return '{"Events": []}'

    CloudTrailResponse.lookup_events = lookup_events
