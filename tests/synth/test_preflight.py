"""`ops preflight` knows what the templates demand: the version of the bootstrap, and every physical name."""

from collections.abc import Iterator

from config import EksEnvironment, naming
from config.naming import STACKS
from ops.preflight.account import BOOTSTRAP_VERSION
from tests.synth.support.synthesis import STACKS as SYNTHESISED
from tests.synth.support.synthesis import Assemblies, Assembly
from tests.synth.test_app import NAMES


def test_the_bootstrap_that_it_requires_is_the_one_that_the_templates_require(dev: Assembly) -> None:
    required = {
        artifact["properties"]["requiresBootstrapStackVersion"]
        for artifact in dev.manifest["artifacts"].values()
        if artifact["type"] == "aws:cloudformation:stack"
    }
    assert required == {BOOTSTRAP_VERSION}


def test_it_looks_at_all_stacks(dev: Assembly) -> None:
    assert set(STACKS) == set(SYNTHESISED)


def test_it_looks_for_every_physical_name_of_the_templates(assembly: Assemblies) -> None:
    for name in ("dev", "prod", "closed", "existing-eks"):
        synthesised = assembly(name)
        in_templates = {
            resource["Properties"][NAMES[resource["Type"]]]
            for template in synthesised.templates.values()
            for kind in NAMES
            for resource in template.all(kind).values()
            if isinstance(resource.get("Properties", {}).get(NAMES[kind]), str)
        }
        assert in_templates == set(checked(synthesised.of_eks))


def checked(environment: EksEnvironment) -> Iterator[str]:
    """Yield the names of the checks of ops/preflight/names.py, beside the HyperPod cluster's."""
    yield naming.data_bucket(environment)
    yield naming.lifecycle_bucket(environment)
    if environment.image.repository:
        yield environment.image.repository
    if environment.eks.existing is None:
        yield naming.eks_cluster(environment)
        yield naming.control_plane_log_group(naming.eks_cluster(environment))
