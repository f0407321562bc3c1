// Loaded into the CDK CLI before its own code (`node --require`), which stays unchanged.
'use strict';

const fs = require('node:fs');

// NODE_OPTIONS brings this into every program on Node that the CLI starts, and into npx, which starts the CLI.
const program = process.argv[1] ? fs.realpathSync(process.argv[1]) : '';
if (program.endsWith('/aws-cdk/bin/cdk')) {
  // Node has read this for the CLI by now. The app must not inherit it: jsii loads its modules from a new folder each
  // time, so Node would write some hundred files of compiled code that no later synthesis could use.
  delete process.env.NODE_COMPILE_CACHE;

  // The interval between polls of CloudFormation is simulated, like the time of what the CLI waits for. This is the
  // pause of toolkit-lib's `waitFor`, which waits for stacks and change sets; no other timer of the CLI is as long.
  const POLL = 5000;
  // An interval as short as the scaled clock's would keep a core busy with polls alone.
  const PAUSE = 250;

  // A proxy, so that the function keeps its own properties (util.promisify calls it through one).
  globalThis.setTimeout = new Proxy(globalThis.setTimeout, {
    apply: (timer, self, [callback, delay, ...given]) =>
      Reflect.apply(timer, self, [callback, delay === POLL ? PAUSE : delay, ...given]),
  });
}
