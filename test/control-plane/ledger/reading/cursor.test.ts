import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readCursor, writeCursor } from '../../../../control-plane/ledger/reading/cursor.ts';

const vaultOf = (secret: string) => ({
  mac: (purpose: string, data: string) =>
    createHmac('sha256', `${secret} ${purpose}`).update(data).digest('hex'),
});
const vault = vaultOf('secret');
const place = { position: 42, chainId: 'agent:7', seq: 17 };
const invalid = expect.objectContaining({ code: 'evidence.cursor_invalid' });

describe('a cursor', () => {
  it('decodes to the position that it was created for', () => {
    const cursor = readCursor(vault, 't', writeCursor(vault, 't', place));
    expect(cursor.position).toBe(42);
    expect(cursor.seqIn('agent:7')).toBe(17);
    expect(cursor.seqIn('agent:8')).toBeUndefined();
  });

  it('is accepted only for the tenant and the installation that issued it', () => {
    const cursor = writeCursor(vault, 't', place);
    expect(() => readCursor(vault, 'u', cursor)).toThrow(invalid);
    expect(() => readCursor(vaultOf('other'), 't', cursor)).toThrow(invalid);
  });

  it('is refused if any part of it was changed', () => {
    const cursor = writeCursor(vault, 't', place);
    for (let at = 0; at < cursor.length; at++) {
      const other = cursor[at] === 'A' ? 'B' : 'A';
      const changed = cursor.slice(0, at) + other + cursor.slice(at + 1);
      expect(() => readCursor(vault, 't', changed), changed).toThrow(invalid);
    }
    for (const changed of [
      '',
      '42',
      'null',
      `${cursor}=`,
      `${cursor}A`,
      ` ${cursor}`,
      cursor.slice(1),
      `${cursor}\n`,
    ]) {
      expect(() => readCursor(vault, 't', changed), changed).toThrow(invalid);
    }
  });

  it('is refused if it is arbitrary text', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 100 }), (text) => {
        expect(() => readCursor(vault, 't', text)).toThrow(invalid);
      }),
    );
  });
});
