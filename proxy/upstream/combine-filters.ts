import type { ResponseFilter } from '../../shared/upstream/response-filter.ts';

type Mode = 'pass' | 'stream' | 'buffer';

const bufferBytesMax = 1024 * 1024;

/** The largest body that is buffered for a filter, in bytes. */
export function bufferLimit(filter: ResponseFilter): number {
  return filter.bytesMax ?? bufferBytesMax;
}

/**
 * Combines filters into one that applies them in order; the first filter sees the original bytes.
 */
export function combineFilters(...filters: readonly ResponseFilter[]): ResponseFilter {
  let cutBy = filters[0];
  const cut = (filter: ResponseFilter) => {
    cutBy = filter;
    return 'cut' as const;
  };
  let active: readonly { readonly filter: ResponseFilter; readonly mode: Mode }[] = [];
  return {
    bytesMax: Math.min(...filters.map(bufferLimit)),
    head(status, headers) {
      const modes: Mode[] = [];
      for (const filter of filters) {
        const mode = filter.head(status, headers);
        if (mode === 'cut') return cut(filter);
        modes.push(mode);
      }
      active = filters.flatMap((filter, index) => {
        const mode = modes[index] ?? 'pass';
        return mode === 'pass' ? [] : [{ filter, mode }];
      });
      if (modes.includes('buffer')) return 'buffer';
      return active.length === 0 ? 'pass' : 'stream';
    },
    chunk(bytes, last) {
      let passed = bytes;
      for (const { filter } of active) {
        const result = filter.chunk?.(passed, last) ?? passed;
        if (result === 'cut') return cut(filter);
        passed = result;
      }
      return passed;
    },
    whole(bytes) {
      let passed = bytes;
      for (const { filter, mode } of active) {
        const result = mode === 'buffer' ? filter.whole?.(passed) : filter.chunk?.(passed, true);
        if (result === 'cut') return cut(filter);
        passed = result ?? passed;
      }
      return passed;
    },
    cause: () => cutBy?.cause?.() ?? 'credential.reflected',
  };
}
