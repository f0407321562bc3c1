"""Clients of a control plane as somebody else: the API server decides as if that user had come."""

import kubernetes

from embedded_account.kubernetes.control_plane import ControlPlane


def api_as(control_plane: ControlPlane, user: str, *groups: str) -> kubernetes.client.ApiClient:
    """Return a client as a user of these groups; without a group, the user is only known to the cluster."""
    api = kubernetes.config.new_client_from_config(str(control_plane.admin_kubeconfig))
    api.set_default_header("Impersonate-User", user)
    # Without a group of its own an impersonated user is still one of those who are known.
    for group in groups or ("system:authenticated",):
        api.set_default_header("Impersonate-Group", group)
    return api
