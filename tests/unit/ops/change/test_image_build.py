"""`ops image build`: the Job that it creates, its refusals, output and exit codes."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import config
from k8s_charts.image_build.context import build_arguments, context_files, context_tag
from ops.change import image_build_log
from ops.commands.whole import app
from tests.unit.support.documented_data import assert_same_shape, documented
from tests.unit.support.fake_apis import Apis, aws_error
from tests.unit.support.running_environment import BUILD_LOG, BUILD_PODS, JOBS, condition

DEV = config.load("dev")
TAG = context_tag(context_files(DEV.version_set, DEV.image.pip), build_arguments(DEV.version_set))
DEPLOYED = f"ray-image-{TAG}-12345678"
AGAIN = f"{DEPLOYED}-2"
LOG = f"{BUILD_PODS}/build-1/log"
FAILED: dict[str, Any] = {
    "failed": 3,
    "conditions": [condition("Failed", message="Job has reached the specified backoff limit")],
}
COMPLETE: dict[str, Any] = {"succeeded": 1, "conditions": [condition("Complete")]}
RUNNING: dict[str, Any] = {"active": 1}
SIMULATED = "pod image-build/build-1 is simulated: no program runs in it; `make rehearse KEEP=1 JOBS=1` runs real Ray"
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": DEPLOYED, "uid": "uid-1"}


def job(name: str, created: str, *, tag: str = TAG, **status: Any) -> dict[str, Any]:
    """Return a build's Job as the API server stores it."""
    added = {"controller-uid": "uid-1", "batch.kubernetes.io/job-name": name}
    env = [{"name": "TAG", "value": tag}, {"name": "LOG", "value": "s3://bucket/image-build/tag.log"}]
    container = {"name": "build", "env": env, "futureField": "kept"}
    template = {"metadata": {"labels": {**added, "own": "label"}}, "spec": {"containers": [container]}}
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "checkov.io/skip1": "why"}
    metadata: dict[str, Any] = {"name": name, "namespace": "image-build", "creationTimestamp": created, "uid": "uid-1"}
    if name != DEPLOYED:
        metadata["ownerReferences"] = [OWNER]
    return {
        "metadata": {**metadata, "labels": {**added, "own": "label"}, "annotations": applied},
        "spec": {"backoffLimit": 2, "selector": {"matchLabels": added}, "template": template},
        "status": status,
    }


def jobs(*items: dict[str, Any]) -> dict[str, Any]:
    return {"items": list(items)}


def pod(**state: Any) -> dict[str, Any]:
    status = {"name": "build", "image": "b", "imageID": "", "ready": False, "restartCount": 0, "state": state}
    metadata = {"name": "build-1", "creationTimestamp": "2026-11-01T11:00:00Z"}
    return {"items": [{"metadata": metadata, "status": {"phase": "Running", "containerStatuses": [status]}}]}


class Clock:
    """A clock that advances only in `sleep`."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def failed(apis: Apis, monkeypatch: pytest.MonkeyPatch) -> Apis:
    """Serve a failed deployed build; after a repetition, the second check finds it complete."""
    monkeypatch.setattr(image_build_log, "time", Clock())
    apis.kubernetes[JOBS] = jobs(job(DEPLOYED, "2026-11-01T10:00:00Z", **FAILED))
    apis.aws["DescribeImages"] = [
        aws_error("ImageNotFoundException", "no such tag"),
        {"imageDetails": [{"imageTags": [TAG]}]},
    ]
    looks = [job(AGAIN, "2026-11-01T11:00:00Z", **status) for status in (RUNNING, COMPLETE)]
    apis.kubernetes[f"{JOBS}/{AGAIN}"] = looks
    apis.kubernetes[BUILD_PODS] = pod(terminated={"exitCode": 0})
    apis.kubernetes[LOG] = "#1 load build definition\n#2 done\n"
    return apis


def build(*options: str) -> Result:
    return CliRunner().invoke(app, ["image", "build", "--env", "dev", *options])


def test_a_failed_build_is_repeated_and_its_log_shown_to_its_end(failed: Apis) -> None:
    done = build()
    assert done.exit_code == 0, done.output
    assert [change for change, _ in failed.changes] == [f"POST {JOBS}"]
    assert done.stdout.splitlines()[1:] == [
        "#1 load build definition",
        "#2 done",
        "── 0 s: building",
        f"built: {TAG}, after 2 s",
    ]


def test_the_new_job_is_the_deployed_ones_manifest_and_belongs_to_it(failed: Apis) -> None:
    build()
    [(_, made)] = failed.changes
    deployed = job(DEPLOYED, "")
    assert made["metadata"] == {
        "name": AGAIN,
        "namespace": "image-build",
        "labels": {"own": "label"},
        "annotations": {"checkov.io/skip1": "why"},
        "ownerReferences": [OWNER],
    }
    assert made["spec"] == {
        "backoffLimit": 2,
        "template": {
            "metadata": {"labels": {"own": "label"}, "annotations": {}},
            "spec": deployed["spec"]["template"]["spec"],
        },
    }


def test_a_failed_repetition_is_repeated_under_the_deployed_jobs_name(failed: Apis) -> None:
    failed.kubernetes[JOBS] = jobs(
        job(DEPLOYED, "2026-11-01T10:00:00Z", **FAILED), job(AGAIN, "2026-11-01T11:00:00Z", **FAILED)
    )
    assert build("--dry-run").exit_code == 0
    [(_, made)] = failed.changes
    assert (made["metadata"]["name"], made["metadata"]["ownerReferences"]) == (f"{DEPLOYED}-3", [OWNER])


def test_a_dry_run_asks_the_api_server_and_follows_nothing(failed: Apis) -> None:
    done = build("--dry-run")
    assert done.exit_code == 0
    assert done.stdout.endswith("dry run: the API server accepts the Job; none was created\n")
    assert "Job has reached the specified backoff limit" in done.stdout
    assert "building" not in done.stdout


def test_json_is_one_object_on_stdout(failed: Apis) -> None:
    done = build("-o", "json")
    assert json.loads(done.stdout) == {
        "job": AGAIN,
        "tag": TAG,
        "state": "ready",
        "detail": f"built: {TAG}",
        "seconds": 2,
    }
    assert "#2 done" in done.stderr
    assert_same_shape(json.loads(done.stdout), documented("image", "build"))


@pytest.mark.parametrize("status", [RUNNING, {}])
def test_a_running_build_is_not_repeated(failed: Apis, status: dict[str, Any]) -> None:
    failed.kubernetes[JOBS] = jobs(job(DEPLOYED, "2026-11-01T10:00:00Z", **status))
    done = build()
    assert (done.exit_code, failed.changes) == (1, [])
    assert f"Job image-build/{DEPLOYED}, created 10:00 UTC, has not ended (" in done.stderr
    assert "). Fix: `ops wait --env dev`" in done.stderr


def test_an_image_that_the_registry_has_is_not_built_again(failed: Apis) -> None:
    failed.aws["DescribeImages"] = {"imageDetails": [{"imageTags": [TAG]}]}
    done = build()
    assert (done.exit_code, failed.changes) == (0, [])
    assert f"the registry has the image: built: {TAG}" in done.stdout


def test_a_complete_build_whose_tag_is_gone_is_repeated(failed: Apis) -> None:
    failed.kubernetes[JOBS] = jobs(job(DEPLOYED, "2026-11-01T10:00:00Z", **COMPLETE))
    assert build().exit_code == 0
    assert len(failed.changes) == 1


def test_a_checkout_with_another_image_is_told_to_deploy(failed: Apis) -> None:
    failed.kubernetes[JOBS] = jobs(job(DEPLOYED, "2026-11-01T10:00:00Z", tag="0123456789abcdef", **FAILED))
    done = build()
    assert (done.exit_code, failed.changes) == (1, [])
    assert f"makes tag 0123456789abcdef, and this checkout's files make {TAG}. Fix: deploy the ray stack" in done.stderr


def test_without_a_job_there_is_nothing_to_repeat(failed: Apis) -> None:
    failed.kubernetes[JOBS] = jobs()
    done = build()
    assert (done.exit_code, failed.changes) == (1, [])
    assert "deploy the ray stack" in done.stderr


def test_two_people_start_one_build(failed: Apis) -> None:
    failed.kubernetes[f"POST {JOBS}"] = (409, {"kind": "Status", "message": "already exists"})
    done = build()
    assert done.exit_code == 1
    assert f"Job {AGAIN} was just started by somebody else" in done.stderr


def test_a_refusal_of_the_api_ends_with_2_and_its_reason(failed: Apis) -> None:
    failed.kubernetes[f"POST {JOBS}"] = (403, {"kind": "Status", "message": "no jobs for you"})
    done = build("--dry-run")
    assert done.exit_code == 2
    assert "no jobs for you" in done.stderr


def test_a_build_that_fails_again_ends_with_3_and_the_end_of_its_log(failed: Apis) -> None:
    failed.kubernetes[f"{JOBS}/{AGAIN}"] = job(AGAIN, "2026-11-01T11:00:00Z", **FAILED)
    failed.kubernetes[BUILD_LOG] = "ERROR: no space left\n"
    done = build()
    assert done.exit_code == 3
    assert f"the build of tag {TAG} failed: Job has reached the specified backoff limit" in done.stderr


def test_a_build_that_does_not_end_in_time_continues(failed: Apis) -> None:
    failed.kubernetes[f"{JOBS}/{AGAIN}"] = job(AGAIN, "2026-11-01T11:00:00Z", **RUNNING)
    done = build("--timeout", "0s")
    assert done.exit_code == 1
    assert (
        f"Job {AGAIN} has not ended after 0 s; it continues. Fix: `ops wait --env dev`. Last seen: building"
        in done.stderr
    )


def test_a_check_without_an_answer_is_repeated(failed: Apis) -> None:
    looks = failed.kubernetes[f"{JOBS}/{AGAIN}"]
    failed.kubernetes[f"{JOBS}/{AGAIN}"] = [(503, {"kind": "Status", "message": "too busy"}), *looks]
    done = build()
    assert done.exit_code == 0, done.output
    assert "── 0 s: no answer, retrying: the Kubernetes API answers 503" in done.stdout


def test_a_silent_build_regularly_reports_its_elapsed_time(failed: Apis) -> None:
    running = job(AGAIN, "2026-11-01T11:00:00Z", **RUNNING)
    failed.kubernetes[f"{JOBS}/{AGAIN}"] = [*[running] * 100, job(AGAIN, "2026-11-01T11:00:00Z", **COMPLETE)]
    failed.kubernetes[BUILD_PODS] = {"items": []}
    said = [line for line in build().stdout.splitlines() if line.startswith("──")]
    assert said == ["── 0 s: building", "── 1 min 00 s: building", "── 2 min 00 s: building", "── 3 min 00 s: building"]


def test_lines_are_shown_once_when_the_stream_ends_early(failed: Apis) -> None:
    """A silent stream is cut, and the next check reads the log from its first line again."""
    running, complete = ({"startedAt": "2026-11-01T11:00:00Z"}, {"exitCode": 0})
    failed.kubernetes[f"{JOBS}/{AGAIN}"] = [
        *[job(AGAIN, "2026-11-01T11:00:00Z", **RUNNING)] * 2,
        job(AGAIN, "2026-11-01T11:00:00Z", **COMPLETE),
    ]
    # Each check lists the pods twice: for the reasons why they wait, and for their logs.
    failed.kubernetes[BUILD_PODS] = [*[pod(running=running)] * 4, pod(terminated=complete)]
    failed.kubernetes[LOG] = ["#1 first\n", "#1 first\n#2 second\n", "#1 first\n#2 second\n#3 third\n"]
    done = build()
    assert done.exit_code == 0, done.output
    assert [line for line in done.stdout.splitlines() if line.startswith("#")] == ["#1 first", "#2 second", "#3 third"]


def test_a_simulated_build_is_reported_as_such_once(failed: Apis) -> None:
    failed.kubernetes[LOG] = (400, f"container build of {SIMULATED}\n")
    done = build()
    assert done.exit_code == 0, done.output
    assert done.stdout.count(f"── container build of {SIMULATED}\n") == 1


def test_an_existing_image_is_bad_input(failed: Apis, monkeypatch: pytest.MonkeyPatch) -> None:
    existing = DEV.image.model_copy(update={"repository": None, "uri": "example.invalid/ray:1"})
    monkeypatch.setattr("ops.commands.change.image.load", lambda _: DEV.model_copy(update={"image": existing}))
    done = build()
    assert (done.exit_code, failed.changes) == (2, [])
    assert "image.uri of dev is example.invalid/ray:1: there is nothing to build" in done.stderr
