// A separate program for tests: seals events into a tenant's ledger, as one of several control
// planes would, and prints the ids of the events that were acknowledged as sealed.
import { readFileSync } from 'node:fs';
import { importPrivateKey } from '../../../shared/crypto/signing-key.ts';
import { anEvent, openLedger } from './ledger.ts';

const [databaseUrl = '', keyFile = '', tenantId = '', count = '0'] = process.argv.slice(2);
const key = importPrivateKey(readFileSync(keyFile));
const ledger = await openLedger({ databaseUrl, key });
process.stdout.write('ready\n');
const seals = Array.from({ length: Number(count) }, async (_, index) => {
  // Starts the events in groups of ten, 2 ms apart, so that batches differ in size.
  await new Promise((resolve) => setTimeout(resolve, Math.floor(index / 10) * 2));
  const event = anEvent({ chain_id: `agent:${index % 5}`, source: `writer:${process.pid}` });
  await ledger.seal(tenantId, event);
  process.stdout.write(`${event.id}\n`);
});
await Promise.all(seals);
await ledger.close();
