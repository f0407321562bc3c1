"""Run the process of the embedded account: parse arguments, install extensions, serve, stop in order."""

import argparse
import gc
import json
import logging
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import ClassVar

from werkzeug.serving import BaseWSGIServer, make_server

from embedded_account import quotas_file
from embedded_account.admission.middleware import only_issued_keys, only_own_hosts
from embedded_account.cloudformation.templates.resource_types import database
from embedded_account.context import Account
from embedded_account.control_routes import ControlRoutes
from embedded_account.journal import Clock, Journal
from embedded_account.kubernetes.pods.programs import RealRay
from embedded_account.lambdas import vpc_calls
from embedded_account.machine.processes import ProgramEndedError
from embedded_account.permissions.middleware import only_permitted
from embedded_account.quotas_file import QuotasFileError
from embedded_account.request_rules.middleware import only_valid
from embedded_account.run_keys import RunKeys

EXTENSIONS = (
    "embedded_account.cloudformation",
    "embedded_account.lambdas",
    "embedded_account.services",
    "embedded_account.lambdas.models",
    "embedded_account.hyperpod",
    "embedded_account.existing",
)
"""The modules with `install(account)`, in the order of installation."""
_SIGNED = re.compile(r"(Signature=|Security-Token=|cfn-response/)[^&\s\"?]+", re.IGNORECASE)
_POLL_SECONDS = 0.05
"""How often the server looks whether it shall end; by default every half second."""


class NodeModulesError(Exception):
    """The CDK CLI is not where the caller says; the message says what is allowed."""


class ExtensionError(Exception):
    """A caller's extension cannot be installed; the message says which, and what is allowed."""


class AccountServer:
    """The account's HTTP server: moto's services behind the account's own routes, on 127.0.0.1."""

    _served: ClassVar["AccountServer | None"] = None

    def __init__(self, account: Account, extensions: Sequence[str] = ()) -> None:
        """`extensions` are the caller's own modules with `install(account)`, installed after the account's."""
        self.account = account
        self._extensions = tuple(extensions)
        self._routes = ControlRoutes(account)
        account.routes = self._routes
        self._server: BaseWSGIServer | None = None

    def start(self) -> None:
        """Install the extensions, then serve from a new thread.

        Raises OSError if the port is taken, ExtensionError if a caller's extension cannot be installed, and
        RuntimeError if this process serves an account already: moto keeps one state of each process.
        """
        _require_free(self.account.port)
        if AccountServer._served:
            raise RuntimeError(
                "this process serves an account already. Allowed: one. Fix: start a process for the other"
            )
        AccountServer._served = self
        # moto reads both variables when it is called: Step Functions calls back to the port.
        os.environ["MOTO_PORT"] = str(self.account.port)
        os.environ["MOTO_ACCOUNT_ID"] = self.account.account_id
        # moto's thousand default machine images, which nothing here starts, take half a second each time EC2 is reset.
        os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"
        install_extensions(self.account, self._extensions)
        from moto.moto_server.werkzeug_app import (  # noqa: PLC0415 - the extensions come first
            DomainDispatcherApplication,
            MotoRequestHandler,
            create_backend_app,
        )

        from embedded_account import moto_internals  # noqa: PLC0415 - it imports moto

        moto_internals.resolve_methods()
        services = vpc_calls.guarded(self.account, DomainDispatcherApplication(create_backend_app))
        signed = only_issued_keys(self.account, only_permitted(self.account, only_valid(self.account, services)))
        application = only_own_hosts(self.account, self._routes.in_front_of(signed))
        self._server = make_server(
            "127.0.0.1", self.account.port, application, threaded=True, request_handler=MotoRequestHandler
        )
        serve = partial(self._server.serve_forever, poll_interval=_POLL_SECONDS)
        threading.Thread(target=serve, name="account-server", daemon=True).start()

    def stop(self) -> None:
        """Stop serving, then stop what the extensions started, the last one first."""
        if self._server:
            self._server.shutdown()
            self._server.server_close()
        self.account.at_end.close()
        self.account.journal.close()
        if AccountServer._served is self:
            AccountServer._served = None


def install_extensions(account: Account, more: Sequence[str] = ()) -> None:
    """Call `install` of every extension, of the caller's `more` last. Raises ExtensionError."""
    for name in EXTENSIONS:
        import_module(name).install(account)
    for name in more:
        _installer(name)(account)


def _installer(name: str) -> Callable[[Account], None]:
    try:
        install: Callable[[Account], None] = import_module(name).install
    except (ImportError, AttributeError) as error:
        raise ExtensionError(
            f"extension {name} is invalid: {error}. Allowed: a module with install(account). Fix: check the name, and "
            "that its folder is on PYTHONPATH"
        ) from error
    return install


def make_account(
    *,
    account_id: str,
    region: str,
    port: int,
    directory: Path,
    binaries: Path,
    node_modules: Path,
    clock_scale: float = 1.0,
    keys: RunKeys | None = None,
    real_rays: Sequence[RealRay] = (),
    quotas: Path | None = None,
) -> Account:
    """Return an account whose journal is in `directory`. Nothing is installed or served yet.

    `binaries` has the control plane's programs, `node_modules` the CDK CLI, whose database of resource types
    CloudFormation reads, and what functions on Node import. Without `keys` the account issues its own, and without
    `quotas`, a file, it has those of a new account. Raises NodeModulesError if the CDK CLI is not there, and
    QuotasFileError.
    """
    if not database(node_modules).is_file():
        raise NodeModulesError(
            f"node_modules {node_modules} is invalid: it has no {database(Path())}. Allowed: the folder in which npm "
            "installed the CDK CLI. Fix: npm install aws-cdk"
        )
    clock = Clock(clock_scale)
    return Account(
        account_id=account_id,
        region=region,
        port=port,
        directory=directory,
        binaries=binaries,
        node_modules=node_modules,
        clock=clock,
        journal=Journal(directory / "journal.jsonl", clock),
        keys=keys or RunKeys.issue(),
        real_rays=real_rays,
        quotas=quotas_file.read(quotas) if quotas else {},
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the account until SIGTERM or SIGINT; print one JSON line when it is ready."""
    arguments = _parse(argv)
    try:
        keys = RunKeys.of(os.environ)
    except KeyError as error:
        print(
            f"the embedded account could not start: {error.args[0]} is not set. Fix: start it with `make rehearse`",
            file=sys.stderr,
        )
        return 1
    _keep_log(arguments.directory)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    given = vars(arguments)
    extensions = given.pop("extensions")
    try:
        account = make_account(**given, keys=keys)
    except (NodeModulesError, QuotasFileError) as error:
        print(f"the embedded account could not start: {error}", file=sys.stderr)
        return 1
    server = AccountServer(account, extensions)
    account.failed = _end
    try:
        server.start()
    except (OSError, ExtensionError) as error:
        print(f"the embedded account could not start: {error}", file=sys.stderr)
        server.stop()
        return 1
    gc.freeze()
    gc.enable()
    print(json.dumps({"ready": True, "port": arguments.port}), flush=True)
    ended.wait()
    server.stop()
    return 0


def _end(failure: ProgramEndedError) -> None:
    """End this process, and by that its children, at once: an orderly stop would wait for the program that ended."""
    print(failure, file=sys.stderr, flush=True)
    os._exit(1)


def _keep_log(directory: Path) -> None:
    """Log into the directory, which nobody else may read: it also holds clusters' Secrets."""
    file = directory / "logs" / "account.log"
    file.parent.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    file.touch(mode=0o600)
    handler = logging.FileHandler(file)
    handler.addFilter(_without_signatures)
    logging.basicConfig(handlers=[handler], level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")


def _without_signatures(record: logging.LogRecord) -> bool:
    """Remove from a presigned URL what gives access to its holder; keep the record."""
    record.msg, record.args = _SIGNED.sub(r"\1…", record.getMessage()), ()
    return True


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m embedded_account serve", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="port on 127.0.0.1")
    parser.add_argument("--account-id", required=True, help="twelve digits")
    parser.add_argument("--region", required=True, help="the region, for example us-west-2")
    parser.add_argument("--directory", type=Path, required=True, help="folder of work files, journal and logs")
    parser.add_argument("--binaries", type=Path, required=True, help="folder of the control plane's binaries")
    parser.add_argument("--node-modules", type=Path, required=True, help="folder in which npm installed the CDK CLI")
    parser.add_argument(
        "--clock-scale", type=float, default=1.0, help="simulated seconds per real second of simulated waits"
    )
    parser.add_argument(
        "--ray",
        type=RealRay.parsed,
        action="append",
        default=[],
        dest="real_rays",
        metavar="IMAGE=DIRECTORY",
        help="pattern of an image of Ray, whose pods then really run with this Python environment; may be repeated",
    )
    parser.add_argument("--quotas", type=Path, help="file of quotas; without one, those of a new account")
    parser.add_argument(
        "--extension",
        action="append",
        default=[],
        dest="extensions",
        metavar="MODULE",
        help="a module of yours whose install(account) is called; may be repeated",
    )
    arguments = parser.parse_args(argv)
    if not (arguments.account_id.isdigit() and len(arguments.account_id) == 12):
        parser.error(f"--account-id: {arguments.account_id!r} is invalid. Allowed: twelve digits")
    if arguments.clock_scale <= 0:
        parser.error(f"--clock-scale: {arguments.clock_scale} is invalid. Allowed: a number above 0")
    return arguments


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise OSError(
                f"port {port} of 127.0.0.1 cannot be used: {error.strerror}. Fix: choose another with --port"
            ) from error
