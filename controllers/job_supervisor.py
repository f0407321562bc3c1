"""Supervise a run on a RayCluster: submit it, follow it, and submit it again after a loss.

A run is one job of the user under one name. Each submission of a run is an attempt, with Ray's submission id
`<run>-<attempt>`. The job finds its run in the variables RUN_NAME, RUN_ATTEMPT, RUN_SERIES (whose count the attempt is)
and RUN_STORAGE, and may print its progress (`controllers.job_decision.PROGRESS`). A Kubernetes Job with the run's name
starts this program; `python -m controllers.job_supervisor --help` lists its arguments.

No attempt is submitted twice: the supervisor acts only under the run's Lease, writes the attempt into the Lease before
submitting it, and Ray refuses an id that it knows. An attempt belongs to one life of the head: when that head is gone,
the attempt is over, whether it ever began or not.

The supervisor can be killed at any time: its successor needs only what the Lease and Ray say. It ends with the job's
exit code, or with `TRY_AGAIN`, after which the Job starts another supervisor. An exit code of the user's job that would
make the Job start another supervisor is written into the Lease only.
"""

import argparse
import os
import sys
import traceback
from pathlib import Path
from typing import Final

from controllers.job_decision import Limits
from controllers.job_run import SupervisedRun
from controllers.kubernetes_api import ApiServer, KubernetesApiError
from controllers.lease import LeaseLostError
from controllers.ray_jobs_api import by_name
from controllers.supervision import NAME, Supervisor, TerminatedError, say
from controllers.telemetry import Metrics, end_on_signals, serve

TRY_AGAIN: Final = 75
"""EX_TEMPFAIL: this process cannot continue, another may."""

STARTS_ANOTHER: Final = frozenset({TRY_AGAIN, 137})
"""Exit codes after which the Job starts another supervisor; 137 is the code of a killed container."""

_FAILED: Final = 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=NAME, description="Supervise a run on a RayCluster.")
    parser.add_argument("--run", required=True, help="name of the run, of its Job and of its Lease")
    parser.add_argument("--namespace", required=True, help="namespace of the Job and of the RayCluster")
    parser.add_argument("--cluster", required=True, help="RayCluster of the run")
    parser.add_argument("--entrypoint", required=True, help="shell command line that the job starts")
    parser.add_argument("--storage", required=True, help="folder or address under which the run keeps its checkpoints")
    parser.add_argument("--package", type=Path, help="zip file that becomes the working directory")
    parser.add_argument("--variable", action="append", default=[], help="KEY=VALUE: the job's own; repeatable")
    parser.add_argument("--pip", action="append", default=[], help="line of the job's requirements; repeatable")
    parser.add_argument("--first-attempt", type=int, default=1, help="number of the first attempt")
    parser.add_argument("--max-attempts", type=int, required=True, help="maximum number of submissions")
    parser.add_argument("--max-stalled", type=int, required=True, help="maximum of failures in a row without progress")
    # Jobs of earlier versions do not have this argument.
    parser.add_argument(
        "--give-up-after",
        type=float,
        default=4 * 3600,
        help="seconds for which attempts must have made no progress before --max-stalled counts",
    )
    parser.add_argument("--service-account", type=Path, required=True, help="folder with `token` and `ca.crt`")
    parser.add_argument("--listen", required=True, help="HOST:PORT of /metrics and /healthz")
    return parser.parse_args()


def main() -> int:
    """Supervise until the run is over, or until SIGTERM or SIGINT; return the exit code."""
    arguments = _arguments()
    cluster = ApiServer.of_pod(arguments.service_account)
    run = SupervisedRun(
        name=arguments.run,
        namespace=arguments.namespace,
        cluster=arguments.cluster,
        entrypoint=arguments.entrypoint,
        storage=arguments.storage,
        package=arguments.package,
        first_attempt=arguments.first_attempt,
        variables=by_name(arguments.variable),
        pip=arguments.pip,
    )
    limits = Limits(attempts=arguments.max_attempts, stalled=arguments.max_stalled, seconds=arguments.give_up_after)
    metrics = Metrics()
    try:
        supervisor = Supervisor(cluster, metrics, run, limits, holder=os.environ["HOSTNAME"])
        end_on_signals(supervisor.ending)
        serve(arguments.listen, metrics, {"/healthz": supervisor.stall})
        code = supervisor.run()
        return _FAILED if code in STARTS_ANOTHER else code
    except TerminatedError:
        say("termination requested")
    except (KubernetesApiError, LeaseLostError) as error:
        say("cannot continue", error=str(error))
    except Exception:  # noqa: BLE001 - Python's own exit code, 1, would end the run for good
        say("unexpected error", error=traceback.format_exc())
    return TRY_AGAIN


if __name__ == "__main__":
    sys.exit(main())
