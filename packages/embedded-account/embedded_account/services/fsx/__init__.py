"""FSx for Lustre, simulated, with CloudFormation's models and a stand-in of the CSI driver's controller."""
