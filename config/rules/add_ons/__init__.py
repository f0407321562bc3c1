"""Rules about the add-ons of EKS, what observes with them, and budgets: V97 to V99 and V102 to V104."""
