"""Test that the rehearsal's own kwok command avoids a data race in kwok's library."""

from embedded_account.kubernetes.building import golang


def test_concurrent_nodes_and_pods_do_not_crash_kwok() -> None:
    """Upstream's kwok command can crash here with "concurrent map writes" in lifecycle.(*Stage).init."""
    golang.run("test", *golang.BUILD_FLAGS, "-run", "TestMatchesOnlyRead", ".", directory=golang.MODULES / "kwok")
