// A separate program for tests: opens the embedded store in the given directory, writes a tenant,
// prints `ready`, and runs until it is killed.
import { openStore } from '../../../control-plane/platform/store/open.ts';
import { silentLog } from '../../../shared/base/log.ts';

const [dataDir = '', tenantId = ''] = process.argv.slice(2);
const store = await openStore({ databaseUrl: undefined, dataDir, log: silentLog });
await store.db.tenant.create({ data: { id: tenantId, name: tenantId } });
process.stdout.write('ready\n');
setInterval(() => {}, 60_000);
