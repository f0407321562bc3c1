// Loaded into the CDK CLI before its own code (`node --require`), of which nothing is changed.
'use strict';

const fs = require('node:fs');

// NODE_OPTIONS brings this into every program on Node that the CLI starts, and into npx, which starts the CLI.
const program = process.argv[1] ? fs.realpathSync(process.argv[1]) : '';
if (program.endsWith('/aws-cdk/bin/cdk')) {
  // Node has read this by now, for the CLI. The app does not inherit it: jsii loads its modules from a new folder each
  // time, so Node would write some hundred files of compiled code that no later synthesis finds.
  delete process.env.NODE_COMPILE_CACHE;

  // The time between two looks at CloudFormation is simulated, like the time of what the CLI waits for. This is the
  // pause of toolkit-lib's `waitFor`, which waits for stacks and change sets; no other timer of the CLI is as long.
  const POLL = 5000;
  // As short as the scaled clock would have it, the asking alone would keep a core busy.
  const PAUSE = 250;

  // A proxy, so that what belongs to the function (util.promisify's way of calling it) stays.
  globalThis.setTimeout = new Proxy(globalThis.setTimeout, {
    apply: (timer, self, [callback, delay, ...given]) =>
      Reflect.apply(timer, self, [callback, delay === POLL ? PAUSE : delay, ...given]),
  });
}
