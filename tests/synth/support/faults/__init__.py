"""Let every action on every type of resource of an app fail once, in the embedded account, and compare what remains.

`world` deploys an app's stacks in this process, without Kubernetes and in simulated time; `functions` answers its
custom resources; `cases` lists what fails; `walk` runs the cases; `page` writes the results.
"""
