"""Checkouts with a fake CDK CLI, which copies templates."""

import json
from pathlib import Path
from typing import Any

# The fake `synth` waits for the file that templates/<environment>/waits-for names, then copies templates/<environment>/
# to its output, or fails if the template is "broken". It records each call in the checkout's cdk.out.
CDK = """
const fs = require('fs'), path = require('path');
const [verb, ...rest] = process.argv.slice(2);
const after = option => rest[rest.indexOf(option) + 1];
if (verb === 'synth') {
  const context = rest.filter((_, i) => rest[i - 1] === '--context');
  const name = context.find(c => c.startsWith('environment=')).split('=')[1], from = path.join('templates', name);
  fs.mkdirSync('cdk.out', {recursive: true});
  fs.writeFileSync(path.join('cdk.out', name), JSON.stringify(context));
  const awaited = path.join(from, 'waits-for');
  const wait = new Int32Array(new SharedArrayBuffer(4));
  while (fs.existsSync(awaited) && !fs.existsSync(fs.readFileSync(awaited, 'utf8'))) { Atomics.wait(wait, 0, 0, 20); }
  if (fs.existsSync(path.join(from, 'broken'))) { console.error('ConfigError: region: is missing'); process.exit(1); }
  fs.cpSync(from, after('--output'), {recursive: true});
}
"""


class Checkout:
    """A directory that `ops review` accepts as a checkout of the project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("node_modules/aws-cdk/bin/cdk", CDK)

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def environment(self, name: str, kind: str = "AWS::X::Y", /, **stacks: dict[str, Any]) -> None:
        """Write an environment whose stacks have one resource of `kind` each, with these properties."""
        self.write(f"environments/{name}.yaml", "")
        artifacts = {}
        for stack, properties in stacks.items():
            file = f"rayhp-{name}-{stack}.template.json"
            resources = {"Thing": {"Type": kind, "Properties": properties}}
            self.write(f"templates/{name}/{file}", json.dumps({"Resources": resources}))
            artifacts[stack] = {"type": "aws:cloudformation:stack", "properties": {"templateFile": file}}
        self.write(f"templates/{name}/manifest.json", json.dumps({"artifacts": artifacts}))

    def synthesised(self) -> dict[str, list[str]]:
        """Return the context of each synthesis by environment."""
        return {path.name: json.loads(path.read_text()) for path in (self.root / "cdk.out").glob("*")}
