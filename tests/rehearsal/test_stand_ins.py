"""The stand-ins of the publishers' charts."""

import pytest
import yaml

from embedded_account.kubernetes.building.binaries import Binaries, kuberay_module_directory
from rehearsal import stand_ins


@pytest.mark.parametrize("kind", ["rayclusters", "rayjobs", "rayservices"])
def test_kuberays_kinds_are_whole_but_for_the_fields_of_v1alpha1(binaries: Binaries, kind: str) -> None:
    text = (kuberay_module_directory(binaries) / f"config/crd/bases/ray.io_{kind}.yaml").read_text()
    own, made = (yaml.load(each, yaml.CSafeLoader) for each in (text, stand_ins.without_v1alpha1_fields(text)))
    [v1, v1alpha1] = own["spec"]["versions"]
    assert (v1["name"], v1["storage"], v1alpha1["name"]) == ("v1", True, "v1alpha1")
    v1alpha1["schema"] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    assert made == own
