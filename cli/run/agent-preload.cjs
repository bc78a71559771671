'use strict';
// `sallyport run` preloads this file into every Node process and worker thread of its command
// (NODE_OPTIONS --require), because Node before 24 ignores the proxy variables, and later versions
// ignore them for agents that a program creates. The file is plain CommonJS that Node 18 can parse,
// and needs no package.

const fs = require('node:fs');
const http = require('node:http');
const https = require('node:https');
const net = require('node:net');
const path = require('node:path');
const tls = require('node:tls');

const answerBytesMax = 65536;
const sallyport = path.resolve(__dirname, '..', '..');
/** Sallyport's own programs connect to each other directly, in every shell. */
const ownPrograms = ['cli/main.ts', 'proxy/start.ts', 'control-plane/main.ts'];

let proxies;
let exceptions;

function main() {
  if (isOwnProgram()) return;
  if (Number(process.versions.node.split('.')[0]) < 18) {
    end(`Node ${process.versions.node} is not supported; use Node 18 or later.`);
  }
  proxies = { 'http:': readProxy('http_proxy'), 'https:': readProxy('https_proxy') };
  exceptions = (variable('no_proxy') || '')
    .toLowerCase()
    .split(/[\s,]+/)
    .filter(Boolean);
  try {
    patchAgents();
    patchRequests();
    patchFetch();
    patchWorkers();
    require('node:module').syncBuiltinESMExports();
  } catch (error) {
    end(`Node ${process.versions.node} cannot be set up (${error.message}).`);
  }
}

function isOwnProgram() {
  try {
    const program = fs.realpathSync(process.argv[1]);
    return ownPrograms.some((name) => program === path.join(sallyport, name));
  } catch (_) {
    return false;
  }
}

/** Ends the process, because no call may bypass the sidecar. */
function end(reason) {
  fs.writeSync(
    2,
    `sallyport: calls of this process cannot go through the sidecar: ${reason} Start it with \`sallyport run -- COMMAND\`; to bypass Sallyport on purpose, remove ${__filename} from NODE_OPTIONS.\n`,
  );
  process.exit(1);
}

function variable(name) {
  return process.env[name] || process.env[name.toUpperCase()];
}

function readProxy(name) {
  try {
    const url = new URL(variable(name));
    if (url.protocol !== 'http:') throw new Error('another protocol');
    const user = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
    return {
      host: withoutBrackets(url.hostname),
      port: Number(url.port || 80),
      authorization: user === ':' ? '' : `Basic ${Buffer.from(user).toString('base64')}`,
    };
  } catch (_) {
    return end(`${name.toUpperCase()} is not set to the sidecar's address.`);
  }
}

function withoutBrackets(host) {
  return host.replace(/^\[|\]$/g, '');
}

/** The proxy for a host; undefined for the proxy itself and for hosts of NO_PROXY. */
function proxyFor(protocol, host, port) {
  const proxy = proxies[protocol];
  const isProxy = Object.values(proxies).some((one) => one.host === host && one.port === port);
  if (isProxy || exceptions.some((entry) => matches(entry, host.toLowerCase(), port)))
    return undefined;
  return proxy;
}

/** Matches an entry of NO_PROXY as Node does: `*`, `host`, `.suffix` or `*.suffix`, with an optional port. */
function matches(entry, host, port) {
  if (entry === '*') return true;
  const [, name, itsPort] = /^(.*?)(?::(\d+))?$/.exec(net.isIPv6(entry) ? `[${entry}]` : entry);
  if (itsPort !== undefined && Number(itsPort) !== port) return false;
  const suffix = name.replace(/^\*/, '');
  return suffix.startsWith('.') ? host.endsWith(suffix) : withoutBrackets(name) === host;
}

/** Opens a CONNECT tunnel to a host; the sidecar recognises TLS and plain HTTP in it. */
function openTunnel(proxy, host, port, done) {
  const authority = `${net.isIPv6(host) ? `[${host}]` : host}:${port}`;
  const proof = proxy.authorization === '' ? '' : `Proxy-Authorization: ${proxy.authorization}\r\n`;
  const socket = net.connect({ host: proxy.host, port: proxy.port });
  let answer = Buffer.alloc(0);
  let isDone = false;
  const finish = (error) => {
    if (isDone) return;
    isDone = true;
    socket.removeListener('error', finish).removeListener('close', closed);
    socket.removeListener('readable', read);
    if (error) socket.on('error', () => {}).destroy();
    // A stream resets its `readable` mode in the next turn of the event loop.
    setImmediate(() => (error ? done(error) : done(null, socket)));
  };
  const closed = () => finish(new Error(refusal(authority, answer.toString('latin1'))));
  const read = () => {
    const chunk = socket.read();
    if (chunk === null) return;
    answer = Buffer.concat([answer, chunk]);
    const headEnd = answer.indexOf('\r\n\r\n');
    if (headEnd >= 0 && /^HTTP\/1\.[01] 200 /.test(answer.toString('latin1', 0, 13))) {
      const rest = answer.subarray(headEnd + 4);
      if (rest.length > 0) socket.unshift(rest);
      finish();
    } else if (answer.length > answerBytesMax) closed();
  };
  socket.setNoDelay(true).setKeepAlive(true, 60000);
  socket.on('error', finish).on('close', closed).on('end', closed).on('readable', read);
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${proof}\r\n`);
}

function refusal(authority, answer) {
  const status = /^HTTP\/1\.[01] (\d{3})/.exec(answer);
  const code = /"(?:reason_code|code)"\s*:\s*"([\w.]+)"/.exec(answer);
  const why = [status?.[1], code?.[1]].filter(Boolean).join(' ');
  return `The sidecar refused the connection to ${authority} (${why || 'it closed the connection'}).`;
}

/**
 * Patches every agent, including those that a program creates; skips agents to which Node itself
 * applies the proxy variables.
 */
function patchAgents() {
  for (const [Agent, protocol] of [
    [http.Agent, 'http:'],
    [https.Agent, 'https:'],
  ]) {
    const direct = Agent.prototype.createConnection;
    Agent.prototype.createConnection = function createConnection(...args) {
      const done = args[args.length - 1];
      const options = connectionOptions(args);
      const proxy = this.options?.proxyEnv ? undefined : proxyOf(protocol, options);
      if (proxy === undefined) return direct.apply(this, args);
      const { host, port } = endpoint(protocol, options);
      openTunnel(proxy, host, port, (error, socket) => {
        if (error) done(error);
        else if (protocol === 'http:') done(null, socket);
        else done(null, direct.call(this, Object.assign({}, options, { socket })));
      });
      return undefined;
    };
  }
}

/** The options of a call `(options, done)` or `(port, host, options, done)`. */
function connectionOptions(args) {
  const options = Object.assign(
    {},
    args.find((arg) => typeof arg === 'object' && arg !== null),
  );
  if (typeof args[0] === 'number') options.port = args[0];
  if (typeof args[1] === 'string') options.host = args[1];
  return options;
}

function endpoint(protocol, options) {
  return {
    host: withoutBrackets(String(options.host || options.hostname || 'localhost')),
    port: Number(options.port) || (protocol === 'https:' ? 443 : 80),
  };
}

function proxyOf(protocol, options) {
  if (options.socketPath || options.socket) return undefined;
  const { host, port } = endpoint(protocol, options);
  return proxyFor(protocol, host, port);
}

/** Patches requests with a `createConnection` function and without an agent, such as those of `ws`. */
function patchRequests() {
  for (const [module, protocol] of [
    [http, 'http:'],
    [https, 'https:'],
  ]) {
    const { request } = module;
    module.request = function tunnelledRequest(...args) {
      return request.apply(
        this,
        args.map((arg) => tunnelled(arg, protocol)),
      );
    };
    module.get = function tunnelledGet(...args) {
      const req = module.request(...args);
      req.end();
      return req;
    };
  }
}

function tunnelled(options, protocol) {
  if (typeof options !== 'object' || options === null) return options;
  const connects = typeof options.createConnection === 'function';
  if (!connects || options.agent || options.agent === false || options.socketPath) return options;
  const Agent = protocol === 'https:' ? https.Agent : http.Agent;
  return Object.assign({}, options, {
    createConnection: (given, done) => {
      const isName = !net.isIP(withoutBrackets(String(given.host)));
      const servername = given.servername || (isName ? given.host : '');
      const cleaned = Object.assign({}, given, { path: undefined, servername });
      return Agent.prototype.createConnection.call(new Agent(), cleaned, done);
    },
  });
}

/** Replaces the dispatcher of the built-in fetch, which the package `undici` shares. */
function patchFetch() {
  // Reading `Response` loads the built-in undici, which then sets its global dispatcher.
  if (globalThis.Response === undefined) return;
  const first = Symbol.for('undici.globalDispatcher.1');
  const second = Symbol.for('undici.globalDispatcher.2');
  const current = globalThis[first];
  if (current === undefined) throw new Error('its fetch has no global dispatcher');
  const { constructor: Agent } = current;
  // An EnvHttpProxyAgent applies the proxy variables itself.
  const agent =
    Agent.name === 'EnvHttpProxyAgent' ? current : new Agent({ connect: connectForFetch });
  if (globalThis[second] === undefined) setGlobal(second, forNewHandlers(agent));
  else if (agent !== current) setGlobal(second, agent);
  setGlobal(first, agent);
}

/**
 * The dispatcher for undici 8, which would otherwise create a dispatcher that bypasses the proxy.
 */
function forNewHandlers(agent) {
  return {
    dispatch: (options, handler) => agent.dispatch(options, legacyHandler(handler)),
    close: () => agent.close(),
    destroy: (error) => agent.destroy(error),
  };
}

function setGlobal(symbol, value) {
  Object.defineProperty(globalThis, symbol, {
    value,
    writable: true,
    enumerable: false,
    configurable: false,
  });
}

function connectForFetch(options, done) {
  const { protocol } = options;
  const { host, port } = endpoint(protocol, { host: options.hostname, port: options.port });
  const proxy = proxyFor(protocol, host, port);
  const secured = (socket) => {
    if (protocol !== 'https:') return done(null, socket);
    const servername = options.servername || (net.isIP(host) ? '' : host);
    const secure = tls.connect({ socket, servername, host, ALPNProtocols: ['http/1.1'] });
    return secure.once('error', done).once('secureConnect', () => {
      secure.removeListener('error', done);
      done(null, secure);
    });
  };
  if (proxy !== undefined) {
    openTunnel(proxy, host, port, (error, socket) => (error ? done(error) : secured(socket)));
    return;
  }
  const socket = net.connect({ host, port }).once('error', done);
  socket.once('connect', () => secured(socket.removeListener('error', done)));
}

/** Adapts a handler of undici 8 to a dispatcher of undici 5 or 6. */
function legacyHandler(handler) {
  let controller;
  const call = (name, ...args) => handler[name]?.(controller, ...args);
  return {
    onConnect(abort, context) {
      controller = createController(abort);
      call('onRequestStart', context);
    },
    onResponseStarted: () => handler.onResponseStarted?.(),
    onBodySent: (chunk) => handler.onBodySent?.(chunk),
    onRequestSent: () => handler.onRequestSent?.(),
    onUpgrade(status, rawHeaders, socket) {
      controller.rawHeaders = rawHeaders;
      call('onRequestUpgrade', status, asObject(rawHeaders), socket);
    },
    onHeaders(status, rawHeaders, resume, statusMessage) {
      controller.rawHeaders = rawHeaders;
      controller.resumeBody = resume;
      call('onResponseStart', status, asObject(rawHeaders), statusMessage);
      return !controller.paused;
    },
    onData(chunk) {
      call('onResponseData', chunk);
      return !controller.paused;
    },
    onComplete(rawTrailers) {
      controller.rawTrailers = rawTrailers;
      call('onResponseEnd', asObject(rawTrailers || []));
    },
    onError(error) {
      if (!handler.onResponseError) throw error;
      call('onResponseError', error);
    },
  };
}

function createController(abort) {
  return {
    rawHeaders: null,
    rawTrailers: null,
    paused: false,
    aborted: false,
    reason: null,
    resumeBody() {},
    pause() {
      this.paused = true;
    },
    resume() {
      if (!this.paused) return;
      this.paused = false;
      this.resumeBody();
    },
    abort(reason) {
      if (this.aborted) return;
      this.aborted = true;
      this.reason = reason;
      abort(reason);
    },
  };
}

function asObject(rawHeaders) {
  const headers = {};
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index].toString('latin1').toLowerCase();
    const value = rawHeaders[index + 1].toString('latin1');
    if (headers[name] === undefined) headers[name] = value;
    else headers[name] = [].concat(headers[name], value);
  }
  return headers;
}

/** Adds the proxy variables to the environment that a program gives to a worker. */
function patchWorkers() {
  const threads = require('node:worker_threads');
  const kept = [
    'NODE_OPTIONS',
    'NODE_EXTRA_CA_CERTS',
    'NODE_USE_ENV_PROXY',
    ...['http_proxy', 'https_proxy', 'no_proxy'].flatMap((name) => [name, name.toUpperCase()]),
  ].filter((name) => process.env[name] !== undefined);
  const values = Object.fromEntries(kept.map((name) => [name, process.env[name]]));
  threads.Worker = class Worker extends threads.Worker {
    constructor(file, options) {
      const env = options?.env;
      const isOwn = typeof env === 'object' && env !== null && env !== process.env;
      super(
        file,
        isOwn ? Object.assign({}, options, { env: Object.assign({}, env, values) }) : options,
      );
    }
  };
}

main();
