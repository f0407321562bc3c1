"""Rules about the add-ons of EKS: V97 and V98."""
