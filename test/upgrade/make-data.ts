import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';
import { startEmbedded } from '../../cli/embedded/start-embedded.ts';
import { createStored } from './create-stored.ts';
import { upstreamAddress, upstreamPort } from './upstream-address.ts';

/** Runs this version on a new data directory, fills it, and packs it as `data-of-<version>.tar.br`. */
async function main(version: string): Promise<void> {
  const folder = fs.mkdtempSync(join(tmpdir(), 'sallyport-upgrade-'));
  const dataDir = join(folder, 'data');
  const upstream = await startUpstream();
  const embedded = await startEmbedded({
    SALLYPORT_DATA_DIR: dataDir,
    SALLYPORT_API_PORT: '0',
    SALLYPORT_PROXY_PORT: '0',
    SALLYPORT_PROXY_ADMIN_PORT: '0',
    SALLYPORT_HOLD_MS: '500',
    SALLYPORT_LOG_LEVEL: 'silent',
  });
  const stored = await createStored(embedded);
  await embedded.close();
  upstream.close();
  fs.rmSync(join(dataDir, 'run'), { recursive: true, force: true });
  fs.writeFileSync(join(folder, 'stored.json'), `${JSON.stringify(stored, undefined, 2)}\n`);
  const tar = execFileSync('tar', ['-c', '-C', folder, 'data', 'stored.json'], {
    maxBuffer: 1 << 30,
  });
  const target = resolve(import.meta.dirname, `data-of-${version}.tar.br`);
  fs.mkdirSync(dirname(target), { recursive: true });
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: 11,
    [constants.BROTLI_PARAM_LARGE_WINDOW]: 0,
    [constants.BROTLI_PARAM_LGWIN]: 24,
    [constants.BROTLI_PARAM_SIZE_HINT]: tar.length,
  };
  fs.writeFileSync(target, brotliCompressSync(tar, { params }));
  fs.rmSync(folder, { recursive: true });
  console.log(`${target}: ${fs.statSync(target).size} bytes (${tar.length} unpacked)`);
}

/** Starts a server in place of the API that the stored bindings name. */
async function startUpstream(): Promise<http.Server> {
  const server = http.createServer((req, res) => {
    req.resume().on('end', () => {
      res.setHeader('content-type', 'application/json');
      res.end('{"done":true}');
    });
  });
  await new Promise<void>((done) => server.listen(upstreamPort, upstreamAddress, done));
  return server;
}

const [version] = process.argv.slice(2);
if (version === undefined) {
  console.error('usage: node test/upgrade/make-data.ts VERSION (of the commit that runs it)');
  process.exit(2);
}
await main(version);
