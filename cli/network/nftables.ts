import type { Backend } from './backend.ts';
import { nftablesChains, nftablesFile, parseNftables } from './nftables-rules.ts';
import { findTool, runTool } from './run-tool.ts';

const table = ['inet', 'sallyport'] as const;

/** The rules as one table of nftables, for IPv4 and IPv6. */
export const nftables: Backend = {
  name: 'nftables',
  isInstalled: async () => (await findTool('nft')) !== undefined,
  expected: nftablesChains,
  async find() {
    const tables = await runTool('nft', ['list', 'tables', 'inet']);
    if (!/^table inet sallyport$/m.test(tables)) return new Map();
    return parseNftables(await runTool('nft', ['--numeric', 'list', 'table', ...table]));
  },
  async install(settings) {
    await runTool('nft', ['-f', '-'], nftablesFile(settings));
  },
  async remove() {
    await runTool('nft', ['-f', '-'], `table inet sallyport\ndelete table inet sallyport\n`);
  },
  isRedirect: (chain) => chain === 'to_sidecar',
  isFilter: (chain) => chain === 'outgoing' || chain === 'leaving' || chain === 'refused',
};
