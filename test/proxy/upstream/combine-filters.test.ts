import { describe, expect, it } from 'vitest';
import { combineFilters } from '../../../proxy/upstream/combine-filters.ts';
import { reflectionFilter } from '../../../shared/upstream/credential-guard.ts';
import type { ResponseFilter } from '../../../shared/upstream/response-filter.ts';

const secret = 'sk_live_4eC39HqLyjWDarjtT1zdp7dc';
const text = { 'content-type': 'text/plain' };

describe('combined filters', () => {
  const upper: ResponseFilter = {
    head: () => 'buffer',
    whole: (bytes) => Buffer.from(bytes.toString().toUpperCase()),
  };

  it('give the body to both a buffering and a streaming filter', () => {
    const both = combineFilters(reflectionFilter([secret]), upper);
    expect(both.head(200, text)).toBe('buffer');
    expect(both.whole?.(Buffer.from('abc'))?.toString()).toBe('ABC');
    const again = combineFilters(reflectionFilter([secret]), upper);
    again.head(200, text);
    expect(again.whole?.(Buffer.from(secret))).toBe('cut');
  });

  it('skip a filter that forwards the response unchanged, and block the response if any filter blocks it', () => {
    const passing: ResponseFilter = { head: () => 'pass', chunk: () => 'cut' };
    const streams = combineFilters(passing, reflectionFilter([secret]));
    expect(streams.head(200, text)).toBe('stream');
    expect(streams.chunk?.(Buffer.from('ok'), false)?.toString()).toBe('ok');
    expect(combineFilters(passing, passing).head(200, text)).toBe('pass');
    expect(combineFilters(passing, { head: () => 'cut' }).head(200, text)).toBe('cut');
  });
});
