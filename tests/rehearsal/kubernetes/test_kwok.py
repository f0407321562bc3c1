"""The flaw of the library of kwok that the rehearsal's own command steers clear of."""

from embedded_account.kubernetes.building import golang


def test_nodes_and_pods_that_come_together_do_not_end_kwok() -> None:
    """kwok's own command may end with "concurrent map writes" in lifecycle.(*Stage).init then."""
    golang.run("test", *golang.BUILD_FLAGS, "-run", "TestMatchesOnlyRead", ".", directory=golang.MODULES / "kwok")
