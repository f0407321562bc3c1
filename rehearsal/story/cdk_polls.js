// Loaded into the CDK CLI before its own code (`node --require`): its time between two looks at CloudFormation is
// simulated, like the time of what it waits for. Nothing of the CLI's own code is changed.
'use strict';

// The pause of toolkit-lib's `waitFor`, which waits for stacks and change sets; no other timer of the CLI is as long.
const POLL = 5000;
// As short as the scaled clock would have it, the asking alone would keep a core busy.
const PAUSE = 250;

// A proxy, so that what belongs to the function (util.promisify's way of calling it) stays.
globalThis.setTimeout = new Proxy(globalThis.setTimeout, {
  apply: (timer, self, [callback, delay, ...given]) =>
    Reflect.apply(timer, self, [callback, delay === POLL ? PAUSE : delay, ...given]),
});
