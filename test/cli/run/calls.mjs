// Makes one call with each client that Node 18 and later have, and prints what came of it, as JSON.
// node calls.mjs PACKAGES HTTP_ORIGIN HTTPS_ORIGIN [worker]
import { execFileSync, fork } from 'node:child_process';
import http, { get } from 'node:http';
import https from 'node:https';
import { createRequire } from 'node:module';
import { text } from 'node:stream/consumers';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

const [packages, ...origins] = isMainThread ? process.argv.slice(2) : workerData;
const require = createRequire(`${packages}/`);

function request(module, url, options) {
  return new Promise((resolve, reject) => {
    module
      .request(url, { method: 'POST', ...options })
      .on('error', reject)
      .on('response', (res) => text(res).then(() => resolve(res.statusCode), reject))
      .end('{}');
  });
}

function simpleGet(url) {
  return new Promise((resolve, reject) => {
    get(url, (res) => text(res).then(() => resolve(res.statusCode), reject)).on('error', reject);
  });
}

const moduleOf = (url) => (url.startsWith('https:') ? https : http);
const post = { method: 'POST', body: '{}' };

const clients = {
  fetch: (url) => fetch(url, post).then(({ status }) => status),
  request: (url) => request(moduleOf(url), url, {}),
  'request-own-agent': (url) => {
    const agent = new (moduleOf(url).Agent)({ keepAlive: true });
    return request(moduleOf(url), url, { agent }).finally(() => agent.destroy());
  },
  'request-no-agent': (url) => request(moduleOf(url), url, { agent: false }),
  axios: async (url) => (await require('axios').post(url, {})).status,
  'axios-no-proxy': async (url) => (await require('axios').post(url, {}, { proxy: false })).status,
};

const undiciReleases = Object.keys(require(`${packages}/node_modules/.package-lock.json`).packages)
  .filter((name) => name.startsWith('node_modules/undici-'))
  .map((name) => name.replace('node_modules/', ''));
for (const release of undiciReleases) {
  clients[`${release}-request`] = async (url) => {
    const { statusCode, body } = await require(release).request(url, post);
    await body.text();
    return statusCode;
  };
  clients[`${release}-fetch`] = (url) =>
    require(release)
      .fetch(url, post)
      .then(({ status }) => status);
}
// A package that was imported in the meantime must not change where the built-in fetch connects.
clients['fetch-again'] = clients.fetch;

const results = {};
async function attempt(name, call) {
  results[name] = await call().catch((error) => `${error.message} ${error.cause?.message ?? ''}`);
}
const where = isMainThread ? (process.env.WHERE ?? 'main') : `worker-${workerData[3]}`;
for (const origin of origins.slice(0, 2)) {
  const scheme = origin.split(':')[0];
  for (const [name, call] of Object.entries(clients)) {
    const marker = `${where}/${name}/${scheme}`;
    await attempt(marker, () => call(`${origin}/${marker}`));
  }
}
await attempt(`${where}/get-import/http`, () =>
  simpleGet(`${origins[0]}/${where}/get-import/http`),
);

const self = fileURLToPath(import.meta.url);
if (isMainThread && process.env.WHERE === undefined) {
  const forms = { plain: {}, 'own-env': { env: { A: 'b' } }, 'no-argv': { execArgv: [] } };
  for (const [name, options] of Object.entries(forms)) {
    const worker = new Worker(pathToFileURL(self), {
      workerData: [packages, ...origins, name],
      ...options,
    });
    Object.assign(
      results,
      await new Promise((resolve, reject) => worker.on('message', resolve).on('error', reject)),
    );
  }
  const args = [self, packages, ...origins];
  const env = { ...process.env, WHERE: 'child' };
  Object.assign(
    results,
    JSON.parse(execFileSync(process.execPath, args, { env, encoding: 'utf8' })),
  );
  const forked = fork(self, args.slice(1), {
    env: { ...process.env, WHERE: 'fork' },
    silent: true,
  });
  Object.assign(results, JSON.parse(await text(forked.stdout)));
}
if (isMainThread) console.log(JSON.stringify(results));
else parentPort.postMessage(results);
