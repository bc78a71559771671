import { describe, expect, it } from 'vitest';
import { combineFilters } from '../../../proxy/upstream/combine-filters.ts';
import { reflectionFilter } from '../../../shared/upstream/credential-guard.ts';
import type { ResponseFilter } from '../../../shared/upstream/response-filter.ts';

const secret = 'sk_live_4eC39HqLyjWDarjtT1zdp7dc';
const text = { 'content-type': 'text/plain' };

describe('filters together', () => {
  const upper: ResponseFilter = {
    head: () => 'buffer',
    whole: (bytes) => Buffer.from(bytes.toString().toUpperCase()),
  };

  it('a buffering and a streaming one both see the body', () => {
    const both = combineFilters(reflectionFilter([secret]), upper);
    expect(both.head(200, text)).toBe('buffer');
    expect(both.whole?.(Buffer.from('abc'))?.toString()).toBe('ABC');
    const again = combineFilters(reflectionFilter([secret]), upper);
    again.head(200, text);
    expect(again.whole?.(Buffer.from(secret))).toBe('cut');
  });

  it('a filter that passes is skipped, and a filter that cuts ends the response', () => {
    const passing: ResponseFilter = { head: () => 'pass', chunk: () => 'cut' };
    const streams = combineFilters(passing, reflectionFilter([secret]));
    expect(streams.head(200, text)).toBe('stream');
    expect(streams.chunk?.(Buffer.from('ok'), false)?.toString()).toBe('ok');
    expect(combineFilters(passing, passing).head(200, text)).toBe('pass');
    expect(combineFilters(passing, { head: () => 'cut' }).head(200, text)).toBe('cut');
  });
});
