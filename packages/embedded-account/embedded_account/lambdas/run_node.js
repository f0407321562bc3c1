// Serves the invocations of one execution environment of a Node.js function, as Lambda's own runtime would.
//
// Usage: node run_node.js CHANNEL TASK MODULE FUNCTION
//
// CHANNEL is the file descriptor of a socket. Each line is JSON: first this process reports how loading the module went,
// then it gets an invocation and reports its outcome, until the other end closes. A report has `error`, `payload`, and
// `ended` when it is the process's last.
'use strict';
const fs = require('node:fs');
const http = require('node:http');
const https = require('node:https');
const net = require('node:net');
const path = require('node:path');
const readline = require('node:readline');

const [, , channelNumber, task, moduleName, functionName] = process.argv;
const channel = new net.Socket({ fd: Number(channelNumber) });

function tell(outcome, then) {
  channel.write(`${JSON.stringify(outcome)}\n`, then);
}

function failed(error) {
  console.error((error && error.stack) || error);
  let message = error && error.message !== undefined ? error.message : String(error);
  const missing = /Cannot find module '(@aws-sdk\/[^']+)'/.exec(message);
  if (missing) {
    message += `\n(Lambda's runtime brings every AWS SDK client; the rehearsal has those of package.json: add ${missing[1]}.)`;
  }
  return {
    error: true,
    payload: {
      errorType: (error && error.name) || 'Error',
      errorMessage: message,
      trace: String((error && error.stack) || '').split('\n'),
    },
  };
}

// An error that nothing catches ends the process, as on Lambda.
function die(error) {
  tell({ ...failed(error), ended: true }, () => process.exit(1));
}

// CDK's provider framework answers CloudFormation with https.request({ hostname, path }): always https and never
// a port. The embedded account gives Node functions a host that no DNS knows, and its requests go to the account.
const responseHost = 'cfn-response.invalid';
const account = new URL(process.env.AWS_ENDPOINT_URL);
const httpsRequest = https.request;
https.request = function request(options, ...rest) {
  const isResponse = typeof options === 'object' && (options.hostname || options.host) === responseHost;
  if (!isResponse) return httpsRequest.call(https, options, ...rest);
  const redirected = { ...options, host: undefined, hostname: account.hostname, port: account.port, protocol: 'http:', agent: undefined };
  return http.request(redirected, ...rest);
};

function context(invocation) {
  return {
    functionName: process.env.AWS_LAMBDA_FUNCTION_NAME,
    functionVersion: process.env.AWS_LAMBDA_FUNCTION_VERSION,
    invokedFunctionArn: invocation.function_arn,
    awsRequestId: invocation.request_id,
    memoryLimitInMB: process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE,
    logGroupName: process.env.AWS_LAMBDA_LOG_GROUP_NAME,
    logStreamName: process.env.AWS_LAMBDA_LOG_STREAM_NAME,
    callbackWaitsForEmptyEventLoop: true,
    getRemainingTimeInMillis: () => Math.max(0, invocation.deadline * 1000 - Date.now()),
  };
}

function load() {
  const base = path.join(task, moduleName);
  const file = ['.js', '.mjs', '.cjs'].map((suffix) => base + suffix).find((name) => fs.existsSync(name));
  if (!file) throw Object.assign(new Error(`Cannot find module '${moduleName}'`), { name: 'Runtime.ImportModuleError' });
  const handler = functionName.split('.').reduce((value, key) => value && value[key], require(file));
  if (typeof handler !== 'function') {
    throw Object.assign(new Error(`${moduleName}.${functionName} is undefined or not exported`), { name: 'Runtime.HandlerNotFound' });
  }
  return handler;
}

async function outcome(handler, invocation) {
  process.env._X_AMZN_TRACE_ID = invocation.trace_id;
  const { event } = invocation;
  try {
    const payload =
      handler.length >= 3
        ? await new Promise((resolve, reject) => handler(event, context(invocation), (error, value) => (error ? reject(error) : resolve(value))))
        : await handler(event, context(invocation));
    return { error: false, payload: payload === undefined ? null : payload };
  } catch (error) {
    return failed(error);
  }
}

process.on('unhandledRejection', die);
process.on('uncaughtException', die);
const handler = load();
tell({ error: false });
const lines = readline.createInterface({ input: channel });
lines.on('line', async (line) => tell(await outcome(handler, JSON.parse(line))));
lines.on('close', () => process.exit(0));
