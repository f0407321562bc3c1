"""An embedded AWS account in one process: moto's services, a strict CloudFormation engine, Lambda, EKS and HyperPod."""
