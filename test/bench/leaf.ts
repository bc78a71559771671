import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import forge from 'node-forge';
import { loadAuthority } from '../../proxy/tls/authority.ts';
import { systemClock } from '../../shared/base/clock.ts';
import { rowOf } from './proxy.ts';
import type { BenchRow } from './row.ts';

const leaves = 300;

/** Measures how long minting a certificate for a new host blocks the event loop. */
export function benchLeaf(): BenchRow {
  const dataDir = mkdtempSync(join(tmpdir(), 'sallyport-bench-'));
  try {
    const authority = loadAuthority({ dataDir, clock: systemClock });
    const ours = timed(leaves, (n) => authority.leafFor(`host-${n}.bench.example`));
    const keys = forge.pki.rsa.generateKeyPair(2048);
    const baseline = timed(20, (n) => signedByForge(keys, `host-${n}.bench.example`));
    const row = 'sidecar, a leaf certificate is minted';
    return rowOf({ row, unit: 'ms', ours, baseline, baselineName: 'node-forge signing by itself' });
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
}

function timed(count: number, work: (n: number) => unknown): number[] {
  return Array.from({ length: count }, (_, n) => {
    const startedAt = performance.now();
    work(n);
    return performance.now() - startedAt;
  });
}

function signedByForge(keys: forge.pki.rsa.KeyPair, host: string): forge.pki.Certificate {
  const certificate = forge.pki.createCertificate();
  certificate.publicKey = keys.publicKey;
  certificate.setSubject([{ name: 'commonName', value: host }]);
  certificate.setIssuer([{ name: 'commonName', value: 'bench' }]);
  certificate.sign(keys.privateKey, forge.md.sha256.create());
  return certificate;
}
