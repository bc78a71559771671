import { hash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { generateSigningKey, importPrivateKey } from '../../../shared/crypto/signing-key.ts';
import {
  checkpointText,
  ledgerOrigin,
  openCheckpoint,
  parseCheckpointText,
  signCheckpoint,
} from '../../../shared/ledger/checkpoint.ts';
import { Frontier, leafHash, verifyInclusion } from '../../../shared/ledger/merkle.ts';
import {
  cosign,
  openNote,
  parseNote,
  parseVkey,
  signNote,
  vkeyOf,
} from '../../../shared/ledger/note.ts';

// The key of RFC 8037, appendix A, and a checkpoint over the leaves "a", "b", "c".
const seed = Buffer.from('nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A', 'base64url');
const key = importPrivateKey(
  Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]),
);
const origin = 'gateway.example/t/1';
const vkey = 'gateway.example/t/1+9bda5776+AddamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea';
const note = `gateway.example/t/1
3
NmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsE=

— gateway.example/t/1 m9pXdsUTkchYqgTA9AaBkD6wRRxU8z6kSpq1udcCa/lfRjKBvlDtAyCOgxbnpIZrlwL+N8QUfof3iauVgx6zwjF1rwg=
`;
const leaves = ['a', 'b', 'c'].map((text) => leafHash(Buffer.from(text)));
const tree = new Frontier();
for (const leaf of leaves) tree.append(leaf);

describe('a checkpoint', () => {
  it('has the same bytes as in other implementations', () => {
    expect(vkeyOf(origin, key.publicJwk)).toBe(vkey);
    expect(signCheckpoint({ origin, size: 3, root: tree.root() }, key)).toBe(note);
    const proof = [Buffer.from('sTeYX/SE+2ANuTEHx3sDZcgNePW0Kd7Q/Zc2HQd5mes=', 'base64')];
    const [, , leaf = Buffer.alloc(0)] = leaves;
    expect(verifyInclusion({ leaf, index: 2, size: 3, root: tree.root() }, proof)).toBe(true);
  });

  it('can be opened with the key that signed the checkpoint, and only for its own ledger', () => {
    const other = generateSigningKey().publicJwk;
    const opened = openCheckpoint(note, [other, key.publicJwk], origin);
    expect(opened).toEqual({
      head: { origin, size: 3, root: tree.root() },
      kid: key.kid,
      vkey,
    });
    expect(openCheckpoint(note, [other])).toBeUndefined();
    expect(openCheckpoint(note, [generateSigningKey('ES256').publicJwk])).toBeUndefined();
    expect(openCheckpoint(note, [key.publicJwk], 'gateway.example/t/2')).toBeUndefined();
  });

  it('cannot be opened if any byte was changed', () => {
    for (let at = 0; at < note.length; at++) {
      const changed = `${note.slice(0, at)}${note[at] === 'A' ? 'B' : 'A'}${note.slice(at + 1)}`;
      expect(openCheckpoint(changed, [key.publicJwk], origin), `byte ${at}`).toBeUndefined();
    }
  });

  it.each([
    ['without a root', `${origin}\n3\n`],
    ['with a size that has leading zeros', `${origin}\n03\n${'A'.repeat(43)}=\n`],
    ['with a size that is too large', `${origin}\n${'9'.repeat(20)}\n${'A'.repeat(43)}=\n`],
    ['with a root that is too short', `${origin}\n3\nAAAA\n`],
    ['with an origin that contains spaces', `two words\n3\n${'A'.repeat(43)}=\n`],
  ])('is rejected %s', (_what, text) => {
    expect(parseCheckpointText(text)).toBeUndefined();
    expect(openCheckpoint(signNote(text, origin, key), [key.publicJwk])).toBeUndefined();
  });

  it('has a different origin for every tenant', () => {
    const names = ['a', 'a/t/b', 'a b', 'a+b', 'ä', 'a%20b'];
    const origins = names.map((name) => ledgerOrigin('gateway.example', name));
    expect(new Set(origins).size).toBe(names.length);
    for (const one of origins) {
      expect(
        openCheckpoint(
          signCheckpoint({ origin: one, size: 3, root: tree.root() }, key),
          [key.publicJwk],
          one,
        ),
      ).toBeDefined();
    }
  });
});

describe('a note', () => {
  const text = checkpointText({ origin, size: 3, root: tree.root() });
  const witness = generateSigningKey();
  const name = 'witness.example/w1';
  const witnessKey = parseVkey(vkeyOf(name, witness.publicJwk, 'cosignature'));

  it('can have cosignatures, each with the time at which its witness signed', () => {
    const cosigned = `${note}${cosign(text, { name, key: witness, timeSeconds: 1_700_000_000 })}\n`;
    const opened = openNote(cosigned, [parseVkey(vkey), witnessKey]);
    expect(opened?.text).toBe(text);
    expect(opened?.verified.map(({ timeSeconds }) => timeSeconds)).toEqual([
      undefined,
      1_700_000_000,
    ]);
  });

  it('is rejected if a signature of a known key is invalid', () => {
    const false_ = cosign(`${text}more\n`, { name, key: witness, timeSeconds: 1_700_000_000 });
    expect(openNote(`${note}${false_}\n`, [parseVkey(vkey), witnessKey])).toBeUndefined();
    // The key of this witness is not requested, so its signatures are ignored.
    expect(openNote(`${note}${false_}\n`, [parseVkey(vkey)])).toBeDefined();
  });

  it('is rejected if a cosignature replaces the ledger’s signature, or the ledger’s signature replaces a cosignature', () => {
    const asLog = parseVkey(vkeyOf(name, witness.publicJwk));
    const cosigned = `${note}${cosign(text, { name, key: witness, timeSeconds: 1 })}\n`;
    expect(openNote(cosigned, [asLog])).toBeUndefined();
    const signed = signNote(text, name, witness);
    expect(openNote(signed, [witnessKey])).toBeUndefined();
  });

  it.each([
    ['text without a final line break', note.replace('=\n\n', '=\n')],
    ['no signatures', `${text}\n`],
    ['a signature without its dash', note.replace('— ', '- ')],
    ['base64 with trailing characters', note.replace('rwg=', 'rwg=A')],
    ['a control character', note.replace('3\n', '3\r\n')],
    ['text after its signatures', `${note}more\n`],
  ])('is rejected with %s', (_what, broken) => {
    expect(parseNote(broken)).toBeUndefined();
  });

  it('has verifier keys that contain a hash of the name and the key', () => {
    expect(parseVkey(vkey).keyHash).toEqual(
      hash(
        'sha256',
        Buffer.concat([
          Buffer.from(`${origin}\n`),
          Buffer.from([1]),
          Buffer.from(key.publicJwk.x, 'base64url'),
        ]),
        'buffer',
      ).subarray(0, 4),
    );
    for (const wrong of [
      '',
      'a+b',
      vkey.replace('/1+', '/2+'),
      vkey.replace('+Add', '+Bdd'),
      `${vkey}A`,
    ]) {
      expect(() => parseVkey(wrong), wrong).toThrow(TypeError);
    }
  });
});
