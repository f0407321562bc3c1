"""`make rehearse-job`: a job on a RayCluster whose pods really are Ray, which loses a node and goes on.

Real are the control plane, KubeRay, the reaper, the supervisor, `ops job submit` with the credentials of a submitter,
and Ray itself with PyTorch, in pods that are sandboxes of this machine (embedded_account/kubernetes/sandbox). The
embedded account is there for who comes in: EKS's endpoint, IAM's tokens, access entries. Simulated are nodes, images,
GPUs, and the file system: /fsx is a folder.
"""
