"""Know from which KubeRay on HyperPod watches Ray's jobs (SageMaker AI developer guide, "Ray on HyperPod")."""

from typing import Final

from config.facts.versions import number

JOB_MONITOR: Final = "HYPERPOD_JMA_HOST"
"""The variable in which AWS's toolkit for Ray looks for the job monitoring agent of its node."""

_KUBERAY: Final = "1.6.0"


def watches(kuberay: str) -> bool:
    """Return whether HyperPod watches jobs of RayClusters that this version of KubeRay operates."""
    return number(kuberay) >= number(_KUBERAY)
