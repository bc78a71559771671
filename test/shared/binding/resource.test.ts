import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fillResource, requireResource } from '../../../shared/binding/resource.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import { parseResource } from '../../../shared/vocabulary/resource.ts';

const ambiguous = expect.objectContaining({ code: 'args.resource_ambiguous' });

describe('a resource template', () => {
  it.each([
    ['payment:{id}', { id: 'a b' }, 'payment:a b'],
    ['payment:{id}', { id: 7 }, 'payment:7'],
    ['{kind}:{a}/{b}', { kind: 'k', a: '1', b: 'ü' }, 'k:1/ü'],
    ['file:{+path}', { path: '/etc/a:b' }, 'file:/etc/a:b'],
    ['page:{+url}', { url: 'https://h/a' }, 'page:https://h/a'],
    ['payment:{id}', {}, undefined],
    ['payment:{id}', { id: '' }, undefined],
    ['payment:{id}', { id: {} }, undefined],
  ])(
    'is filled from arguments: the template %s with the arguments %j gives %j',
    (template, args, filled) => {
      expect(fillResource(template, args)).toBe(filled);
    },
  );

  it.each([
    ...['a:b', 'a/b', 'a\\b', '/', ':', '.', '..', 'a\nb', 'a\0', 'a\u2028b'].map((id) => [
      'payment:{id}',
      id,
    ]),
    ...['a/../b', '..', './a', 'a/.', 'a\\b', 'a/..:b', 'a\0b'].map((id) => ['file:{+id}', id]),
  ])('is refused: the template %s with the value %j', (template, id) => {
    expect(() => fillResource(template, { id })).toThrow(ambiguous);
    expect(() => requireResource(template, { id })).toThrow(ambiguous);
  });

  it('gives different resources for different arguments', () => {
    const value = fc.string({ unit: fc.constantFrom(...'a:/.\\-'), minLength: 1, maxLength: 4 });
    const all = fc.record({ kind: value, a: value, b: value });
    const fill = (args: { kind: string; a: string; b: string }) => {
      try {
        return requireResource('{kind}:{a}/{b}', args);
      } catch (error) {
        if (error instanceof GatewayError) return undefined;
        throw error;
      }
    };
    fc.assert(
      fc.property(all, all, (one, other) => {
        const resource = fill(one);
        if (resource === undefined) return;
        expect(parseResource(resource)).toEqual({ type: one.kind, id: `${one.a}/${one.b}` });
        if (resource === fill(other)) expect(one).toEqual(other);
      }),
      { numRuns: 2_000 },
    );
  });
});
