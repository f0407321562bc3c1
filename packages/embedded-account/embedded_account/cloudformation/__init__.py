"""Run a small, strict CloudFormation on moto's resource models.

moto's own engine skips unknown types, ignores order, never rolls back and reports success for what it did not do. This
package therefore replaces its request handling, stacks and change sets entirely. moto's resource models, backends and
HTTP layer stay.
"""

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embedded_account.context import Account


def install(account: "Account") -> None:
    """Make this engine answer the account's CloudFormation endpoint."""
    # Loaded here: whoever only reads templates must not load moto, which reads the AWS files of the caller.
    from moto.cloudformation import urls  # noqa: PLC0415

    from embedded_account.cloudformation.api.operations import CloudFormationApi  # noqa: PLC0415
    from embedded_account.cloudformation.api.responses import response_class  # noqa: PLC0415
    from embedded_account.cloudformation.engine import Engine  # noqa: PLC0415
    from embedded_account.cloudformation.templates.resource_types import resource_types  # noqa: PLC0415

    engine = Engine(account)
    account.stacks = engine.store
    urls.url_paths = {"{0}/$": response_class(CloudFormationApi(account, engine)).dispatch}
    # Reading the resource database takes a third of a second: read it before the first deployment needs it.
    threading.Thread(target=resource_types, args=(account.node_modules,), name="resource-types", daemon=True).start()
