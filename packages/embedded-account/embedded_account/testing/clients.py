"""Constants and types of the account that the plugin serves in the test process."""

from collections.abc import Callable
from typing import Any, Final

from embedded_account.paths import nearest_node_modules

ACCOUNT_ID: Final = "111122223333"
REGION: Final = "us-west-2"

NODE_MODULES: Final = nearest_node_modules()

Clients = Callable[[str], Any]
"""`clients("s3")` returns a boto3 client of the account."""
