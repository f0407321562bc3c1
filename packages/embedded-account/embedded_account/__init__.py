"""An AWS account inside one process: moto's services, an own strict CloudFormation, Lambda, EKS and HyperPod."""
