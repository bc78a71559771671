/**
 * The agent's past usage of a tool, as policies refer to it. The deciding program supplies it; no
 * part comes from the request.
 */
export const usageRoot = 'usage';
export const usageCounts = ['calls_1h', 'calls_24h'] as const;
export type UsageCount = (typeof usageCounts)[number];

const sumPrefix = 'usage.sum_24h.';

/** The path below `args` that `usage.sum_24h.<path>` sums; undefined for other paths. */
export function summedPath(path: string): string | undefined {
  return path.startsWith(sumPrefix) ? path.slice(sumPrefix.length) : undefined;
}

export function isUsagePath(path: string): boolean {
  return path === usageRoot || path.startsWith(`${usageRoot}.`);
}

/**
 * Returns the problem of a path that begins with `usage`, or undefined. A budget on an unknown path
 * would have no effect.
 */
export function usagePathProblem(path: string): string | undefined {
  if (!isUsagePath(path) || usageCounts.some((count) => path === `${usageRoot}.${count}`)) {
    return undefined;
  }
  const summed = summedPath(path);
  if (summed === 'args' || summed?.startsWith('args.')) {
    return `${JSON.stringify(path)}: name the summed value by its path below args, as in usage.sum_24h.amount`;
  }
  if (summed !== undefined) return undefined;
  return `${JSON.stringify(path)} is not one of usage.calls_1h, usage.calls_24h, usage.sum_24h.<path below args>`;
}
