// A program of its own for tests: opens the embedded store on the directory given, writes a
// tenant, says so, and stays until it is killed.
import { openStore } from '../../../control-plane/platform/store/open.ts';
import { silentLog } from '../../../shared/base/log.ts';

const [dataDir = '', tenantId = ''] = process.argv.slice(2);
const store = await openStore({ databaseUrl: undefined, dataDir, log: silentLog });
await store.db.tenant.create({ data: { id: tenantId, name: tenantId } });
process.stdout.write('ready\n');
setInterval(() => {}, 60_000);
