"""Rehearse a job on a RayCluster of real Ray pods, which loses a node and resumes: `make rehearse-job`.

Real are the control plane, KubeRay, the reaper, the supervisor, `ops job submit` with a submitter's credentials, and
Ray itself with PyTorch, in pods that are sandboxes of this machine (embedded_account/kubernetes/sandbox). The embedded
account provides what access to the cluster needs: EKS's endpoint, IAM's tokens, access entries. Simulated are nodes,
images, GPUs, and the file system: /fsx is a folder.
"""
