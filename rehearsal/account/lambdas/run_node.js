// Runs one invocation of a Node.js function, as Lambda's own Node.js runtime would.
//
// Usage: node run_node.js RESULT TASK MODULE FUNCTION, with the event on stdin. RESULT receives
// {"error": bool, "payload": ...}.
'use strict';
const fs = require('node:fs');
const http = require('node:http');
const https = require('node:https');
const path = require('node:path');

const [, , resultFile, task, moduleName, functionName] = process.argv;

function finish(outcome) {
  fs.writeFileSync(`${resultFile}.part`, JSON.stringify(outcome));
  fs.renameSync(`${resultFile}.part`, resultFile);
  process.exit(0);
}

function fail(error) {
  console.error((error && error.stack) || error);
  let message = error && error.message !== undefined ? error.message : String(error);
  const missing = /Cannot find module '(@aws-sdk\/[^']+)'/.exec(message);
  if (missing) {
    message += `\n(Lambda's runtime brings every AWS SDK client; the rehearsal has those of package.json: add ${missing[1]}.)`;
  }
  finish({
    error: true,
    payload: {
      errorType: (error && error.name) || 'Error',
      errorMessage: message,
      trace: String((error && error.stack) || '').split('\n'),
    },
  });
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

function context() {
  return {
    functionName: process.env.AWS_LAMBDA_FUNCTION_NAME,
    functionVersion: process.env.AWS_LAMBDA_FUNCTION_VERSION,
    invokedFunctionArn: process.env.REHEARSAL_FUNCTION_ARN,
    awsRequestId: process.env.REHEARSAL_REQUEST_ID,
    memoryLimitInMB: process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE,
    logGroupName: process.env.AWS_LAMBDA_LOG_GROUP_NAME,
    logStreamName: process.env.AWS_LAMBDA_LOG_STREAM_NAME,
    callbackWaitsForEmptyEventLoop: true,
    getRemainingTimeInMillis: () => Math.max(0, Number(process.env.REHEARSAL_DEADLINE) * 1000 - Date.now()),
  };
}

async function main() {
  process.on('unhandledRejection', fail);
  process.on('uncaughtException', fail);
  const event = JSON.parse(fs.readFileSync(0, 'utf8'));
  const base = path.join(task, moduleName);
  const file = ['.js', '.mjs', '.cjs'].map((suffix) => base + suffix).find((name) => fs.existsSync(name));
  if (!file) throw Object.assign(new Error(`Cannot find module '${moduleName}'`), { name: 'Runtime.ImportModuleError' });
  const handler = functionName.split('.').reduce((value, key) => value && value[key], require(file));
  if (typeof handler !== 'function') {
    throw Object.assign(new Error(`${moduleName}.${functionName} is undefined or not exported`), { name: 'Runtime.HandlerNotFound' });
  }
  const payload =
    handler.length >= 3
      ? await new Promise((resolve, reject) => handler(event, context(), (error, value) => (error ? reject(error) : resolve(value))))
      : await handler(event, context());
  finish({ error: false, payload: payload === undefined ? null : payload });
}

main().catch(fail);
