"""Rehearse a job on real Ray that survives an upgrade of the controllers and the loss of a node: `make rehearse-job`.

Real are the control plane, KubeRay, the reaper, the supervisor, `ops job submit` with a submitter's credentials, and
Ray itself with PyTorch, in pods that are sandboxes of this machine (embedded_account/kubernetes/pods/sandbox). The
embedded account provides what access to the cluster needs: EKS's endpoint, IAM's tokens, access entries. Simulated are
nodes, images, GPUs, and the file system: /fsx is a folder.
"""
