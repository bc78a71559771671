import type { Backend } from './backend.ts';
import {
  type Family,
  families,
  iptablesChains,
  iptablesFile,
  iptablesRemoval,
  parseIptables,
  tables,
} from './iptables-rules.ts';
import { findTool, runTool } from './run-tool.ts';

const prefix: Readonly<Record<Family, string>> = { IPv4: 'iptables', IPv6: 'ip6tables' };

/** Waits for other programs that hold the lock of the tables. */
const restoreOptions = ['--noflush', '--wait', '10'];

/** The rules as chains of iptables and of ip6tables. Each table changes in one step. */
export const iptables: Backend = {
  name: 'iptables',
  async isInstalled() {
    const found = await Promise.all(families.map((family) => findTool(prefix[family])));
    return !found.includes(undefined);
  },
  expected: (settings) => merged(families.map((family) => iptablesChains(settings, family))),
  async find() {
    const found = await Promise.all(
      families.map(async (family) => parseIptables(await save(family), family)),
    );
    return merged(found);
  },
  async install(settings) {
    for (const family of families) {
      await restore(family, iptablesFile(family, settings, await save(family)));
    }
  },
  async remove() {
    for (const family of families) {
      const file = iptablesRemoval(await save(family));
      if (file !== '') await restore(family, file);
    }
  },
  isRedirect: (chain) => / nat /.test(chain),
  isFilter: (chain) =>
    / filter (OUTPUT|SALLYPORT_OUTGOING|SALLYPORT_REFUSED)$| mangle (POSTROUTING|SALLYPORT_LEAVING)$/.test(
      chain,
    ),
};

/** Names each table, because a listing of all tables is empty for a user who may not list them. */
async function save(family: Family): Promise<string> {
  const saved: string[] = [];
  for (const table of tables) saved.push(await runTool(`${prefix[family]}-save`, ['-t', table]));
  return saved.join('');
}

async function restore(family: Family, file: string): Promise<void> {
  await runTool(`${prefix[family]}-restore`, restoreOptions, file);
}

function merged<Key, Value>(maps: readonly ReadonlyMap<Key, Value>[]): ReadonlyMap<Key, Value> {
  return new Map(maps.flatMap((map) => [...map]));
}
