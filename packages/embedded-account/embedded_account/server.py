"""The embedded account's process: arguments, extensions, moto's server, and an orderly end."""

import argparse
import gc
import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from werkzeug.serving import BaseWSGIServer, make_server

from embedded_account.admission.middleware import only_issued_keys, only_own_hosts
from embedded_account.context import Account
from embedded_account.control_routes import ControlRoutes
from embedded_account.journal import Clock, Journal
from embedded_account.lambdas import vpc_calls
from embedded_account.machine.processes import ProgramEndedError
from embedded_account.run_keys import RunKeys

EXTENSIONS = (
    "embedded_account.cloudformation",
    "embedded_account.lambdas",
    "embedded_account.services",
    "embedded_account.lambdas.models",
    "embedded_account.hyperpod",
    "embedded_account.existing",
)
"""Modules with `install(account)`, in the order of installation."""


class AccountServer:
    """The account's HTTP server: moto's services behind the account's own routes, on 127.0.0.1."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self._routes = ControlRoutes(account)
        account.routes = self._routes
        self._server: BaseWSGIServer | None = None

    def start(self) -> None:
        """Install the extensions, then serve from a thread of its own.

        Raises OSError when the port is taken.
        """
        _require_free(self.account.port)
        # moto reads both when it is called: Step Functions calls back to the port.
        os.environ["MOTO_PORT"] = str(self.account.port)
        os.environ["MOTO_ACCOUNT_ID"] = self.account.account_id
        # A thousand machine images that nothing here starts cost half a second whenever EC2 is emptied.
        os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"
        install_extensions(self.account)
        from moto.moto_server.werkzeug_app import (  # noqa: PLC0415 - the extensions come first
            DomainDispatcherApplication,
            MotoRequestHandler,
            create_backend_app,
        )

        services = vpc_calls.guarded(self.account, DomainDispatcherApplication(create_backend_app))
        signed = only_issued_keys(self.account, services)
        application = only_own_hosts(self.account, self._routes.in_front_of(signed))
        self._server = make_server(
            "127.0.0.1", self.account.port, application, threaded=True, request_handler=MotoRequestHandler
        )
        threading.Thread(target=self._server.serve_forever, name="account-server", daemon=True).start()

    def stop(self) -> None:
        """Stop serving, then end what the extensions started, the last one first."""
        if self._server:
            self._server.shutdown()
            self._server.server_close()
        self.account.at_end.close()
        self.account.journal.close()


def install_extensions(account: Account) -> None:
    """Call `install` of every extension."""
    for name in EXTENSIONS:
        import_module(name).install(account)


def make_account(
    *,
    account_id: str,
    region: str,
    port: int,
    directory: Path,
    binaries: Path,
    clock_scale: float = 1.0,
    keys: RunKeys | None = None,
) -> Account:
    """Return an account whose journal lies in `directory`; nothing is installed or served yet.

    Without `keys` it issues its own.
    """
    clock = Clock(clock_scale)
    return Account(
        account_id=account_id,
        region=region,
        port=port,
        directory=directory,
        binaries=binaries,
        clock=clock,
        journal=Journal(directory / "journal.jsonl", clock),
        keys=keys or RunKeys.issue(),
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
    (arguments.directory / "logs").mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        filename=arguments.directory / "logs" / "account.log",
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    server = AccountServer(make_account(**vars(arguments), keys=keys))
    server.account.failed = _end
    try:
        server.start()
    except OSError as error:
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
    """End this process now, and by that all that it has started: an end in order would wait for what is dead."""
    print(failure, file=sys.stderr, flush=True)
    os._exit(1)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m embedded_account", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="port on 127.0.0.1")
    parser.add_argument("--account-id", required=True, help="twelve digits")
    parser.add_argument("--region", required=True, help="the one region that is used, such as us-west-2")
    parser.add_argument("--directory", type=Path, required=True, help="work files, journal and logs")
    parser.add_argument("--binaries", type=Path, required=True, help="folder with the control plane's binaries")
    parser.add_argument(
        "--clock-scale", type=float, default=1.0, help="simulated seconds per real second of simulated waits"
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
