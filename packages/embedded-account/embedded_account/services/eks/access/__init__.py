"""Who may use an EKS cluster: access entries, their policies, tokens, pod identities."""
