"""Rules about the add-ons of EKS and what observes with them: V97 to V99 and V102."""
