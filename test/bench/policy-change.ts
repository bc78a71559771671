import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { PolicyCompiler } from '../../shared/policy/engine/compile.ts';
import type { PolicyDefinition } from '../../shared/policy/language/definition.ts';
import { policyHash } from '../../shared/policy/language/hash.ts';
import type { PublishedPolicy } from '../../shared/policy/language/published-policy.ts';
import { type BenchRow, summarise } from './row.ts';

const policyCount = 1_000;
const rulesPerPolicy = 20;
const changes = 15;

/**
 * Measures the cost of a large set of policies: the memory after compilation, and the time to apply
 * a change of one policy.
 */
export function benchPolicyChange(): BenchRow[] {
  const collect = garbageCollector();
  const policies = Array.from({ length: policyCount }, (_, index) => publishedOf(index, 0));
  const definitionsBytes = heapGrowth(collect, () => JSON.parse(JSON.stringify(policies)));
  const compiler = new PolicyCompiler();
  const compiledBytes = heapGrowth(collect, () => compiler.compile(policies));
  const whole = timesOf(5, () => new PolicyCompiler().compile(policies));
  const oneChanged = timesOf(changes, (round) => {
    const changed = publishedOf(round * 7, round + 1);
    compiler.compile(policies.map((policy) => (policy.id === changed.id ? changed : policy)));
  });
  const size = `${policyCount} policies of ${rulesPerPolicy} rules`;
  const megabyte = 1e6;
  return [
    {
      row: `policy, memory of ${size}, compiled`,
      ours: compiledBytes / megabyte,
      baseline: definitionsBytes / megabyte,
      baselineName: 'their definitions alone',
      ratio: compiledBytes / definitionsBytes,
      unit: 'MB',
      spread: 0,
    },
    {
      row: `policy, one of ${size} changes`,
      ours: oneChanged.median,
      baseline: whole.median,
      baselineName: 'compiling them all',
      ratio: oneChanged.median / whole.median,
      unit: 'ms',
      spread: oneChanged.spread,
    },
  ];
}

function publishedOf(index: number, version: number): PublishedPolicy {
  const rules = Array.from({ length: rulesPerPolicy }, (_, rule) => ({
    name: `rule ${rule}`,
    decision: 'deny' as const,
    reason: `bench.${index}.${rule}.${version}`,
    when: {
      all: [
        {
          path: 'tool.name',
          operator: '==' as const,
          value: `mcp.server${index % 50}.tool${rule}`,
        },
        { path: 'args.amount', operator: '>=' as const, value: index * 10 + rule },
        { path: 'environment', operator: '==' as const, value: 'prod' },
      ],
    },
  }));
  const definition: PolicyDefinition = { id: `bench-${index}`, version: version + 1, rules };
  return { id: index + 1, hash: policyHash(definition), definition };
}

function garbageCollector(): () => void {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as () => void;
}

/** Returns the number of heap bytes that the result of `make` retains. */
function heapGrowth(collect: () => void, make: () => unknown): number {
  collect();
  const before = process.memoryUsage().heapUsed;
  const made = make();
  collect();
  const bytes = process.memoryUsage().heapUsed - before;
  if (made === undefined) throw new Error('nothing was made');
  return bytes;
}

function timesOf(rounds: number, run: (round: number) => void) {
  const times = Array.from({ length: rounds }, (_, round) => {
    const startedMs = performance.now();
    run(round);
    return performance.now() - startedMs;
  });
  return summarise(times);
}
