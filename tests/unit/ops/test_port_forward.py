"""The end of a port-forward under its thread is silent; other errors of threads are not."""

import threading

import pytest

from ops import port_forward


@pytest.mark.parametrize(
    ("name", "error", "told"),
    [
        ("Kubernetes port forward proxy: 8265", ConnectionResetError("closed"), False),
        ("Kubernetes port forward proxy: 8265", KeyError("bug"), True),
        ("worker", ConnectionResetError("closed"), True),
    ],
)
def test_only_the_end_of_the_connection_is_silent(
    name: str, error: Exception, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", seen.append)
    port_forward._quieten.__wrapped__()

    def fail() -> None:
        raise error

    thread = threading.Thread(target=fail, name=name)
    thread.start()
    thread.join()
    assert bool(seen) is told
