"""Sees a run through on a RayCluster: submits it, follows it, and submits it again after a loss.

A run is one job of the user under one name. Each submission of it is an attempt, with Ray's submission id
`<run>-<attempt>`; the job finds its run in the variables RUN_NAME, RUN_ATTEMPT and RUN_STORAGE, and may tell how far
it came (`controllers.job_decision.PROGRESS`). The program of a Kubernetes Job of the run's name;
`python -m controllers.job_supervisor --help` says how it is told what to do.

Never two submissions of one attempt: it acts only under the run's Lease, writes the attempt down there before it
submits it, and Ray refuses an id that it knows. An attempt belongs to one life of the head: when the head that it was
meant for is gone, the attempt is over, whether it ever began or not. What the Lease says and what Ray says is all that
a successor needs, so it can be killed at any time. It ends with the job's exit code, or with `TRY_AGAIN`: the Job
starts another. A job's own code that the Job would take for a reason to start another stands in the Lease only.
"""

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import Final

from controllers.job_decision import Limits
from controllers.job_run import Run
from controllers.kubernetes_api import Api, ApiError, ApiServer
from controllers.lease import LeaseLostError
from controllers.supervision import NAME, Supervisor, TerminatedError, say
from controllers.telemetry import Metrics, serve

TRY_AGAIN: Final = 75
"""EX_TEMPFAIL: this process cannot go on, another may."""

STARTS_ANOTHER: Final = frozenset({TRY_AGAIN, 137})
"""Exit codes after which the Job starts another supervisor; 137 is that of a container that was killed."""

_FAILED: Final = 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=NAME, description="See a run through on a RayCluster.")
    parser.add_argument("--run", required=True, help="name of the run, of its Job and of its Lease")
    parser.add_argument("--namespace", required=True, help="namespace of the Job and of the RayCluster")
    parser.add_argument("--cluster", required=True, help="RayCluster that it runs on")
    parser.add_argument("--entrypoint", required=True, help="what the job starts, a line for the shell")
    parser.add_argument("--storage", required=True, help="folder or address under which the run keeps its checkpoints")
    parser.add_argument("--package", type=Path, help="zip file that becomes the working directory")
    parser.add_argument("--first-attempt", type=int, default=1, help="number of the first attempt")
    parser.add_argument("--max-attempts", type=int, required=True, help="submissions at most")
    parser.add_argument("--max-stalled", type=int, required=True, help="failures in a row without progress at most")
    parser.add_argument("--service-account", type=Path, required=True, help="folder with `token` and `ca.crt`")
    parser.add_argument("--listen", required=True, help="HOST:PORT of /metrics and /healthz")
    return parser.parse_args()


def main() -> int:
    """Run until the run is over, or SIGTERM or SIGINT; return the exit code."""
    arguments = _arguments()
    cluster = ApiServer(
        os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"]), arguments.service_account
    )
    run = Run(
        name=arguments.run,
        namespace=arguments.namespace,
        cluster=arguments.cluster,
        entrypoint=arguments.entrypoint,
        storage=arguments.storage,
        package=arguments.package,
        first_attempt=arguments.first_attempt,
    )
    limits = Limits(attempts=arguments.max_attempts, stalled=arguments.max_stalled)
    metrics = Metrics()
    try:
        supervisor = Supervisor(Api(cluster), metrics, run, limits, holder=os.environ["HOSTNAME"])
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: supervisor.ending.set())
        serve(arguments.listen, metrics, {"/healthz": supervisor.stall})
        code = supervisor.run()
        return _FAILED if code in STARTS_ANOTHER else code
    except TerminatedError:
        say("asked to end")
    except (ApiError, LeaseLostError) as error:
        say("cannot go on", error=str(error))
    return TRY_AGAIN


if __name__ == "__main__":
    sys.exit(main())
