import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ProxyAgent, fetch as proxied } from 'undici';

/**
 * Runs the reference client behind a sidecar. It first binds the suite's server for this scenario, as an
 * operator would, and then starts the client with the proxy variables of the sidecar.
 */
async function main(): Promise<void> {
  const { BENCH_API = '', BENCH_KEY = '', BENCH_PROXY = '' } = process.env;
  const url = new URL(process.argv.at(-1) ?? '');
  const name = `s${createHash('sha256').update(url.href).digest('hex').slice(0, 12)}`;
  const put = await fetch(`${BENCH_API}/v1/runtime/bindings/${name}`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${BENCH_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ protocol: 'mcp', host: url.host, path: url.pathname }),
  });
  if (!put.ok) throw new Error(await put.text());
  const env = { ...process.env, HTTP_PROXY: BENCH_PROXY, NO_PROXY: '', NODE_USE_ENV_PROXY: '1' };
  const dispatcher = new ProxyAgent({ uri: BENCH_PROXY, proxyTunnel: false });
  const knows = async () => {
    const manifest = await proxied('http://sallyport.internal/manifest', { dispatcher });
    return (await manifest.text()).includes(`"${name}"`);
  };
  while (!(await knows())) await delay(20);
  await dispatcher.close();
  const script = join(import.meta.dirname, 'client.ts');
  const child = spawn(process.execPath, [script, url.href], { env, stdio: 'inherit' });
  const [code] = await once(child, 'close');
  process.exitCode = Number(code);
}

await main();
