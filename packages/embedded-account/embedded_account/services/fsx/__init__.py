"""Simulated FSx for Lustre, CloudFormation's models of it, and a stand-in for the CSI driver's controller."""
