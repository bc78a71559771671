import { z } from 'zod';
import { asSetting } from '../../../shared/base/settings.ts';
import { type NoteVerifier, parseVkey } from '../../../shared/ledger/note.ts';

/**
 * An external party that cosigns a checkpoint only if the checkpoint extends the ones that the
 * party signed before.
 */
export interface Witness {
  /** Parsed verifier key. */
  readonly verifier: NoteVerifier;
  /** Base URL of `add-checkpoint`. */
  readonly url: string;
}

/** Prefix of every ledger's name: a URL without scheme, such as `gateway.example`. */
export const ledgerOriginSetting = z
  .string()
  .regex(
    /^[0-9A-Za-z][0-9A-Za-z._:/-]{0,99}$/,
    'must be a name like gateway.example, without scheme, spaces or plus signs',
  )
  .refine((origin) => !origin.endsWith('/') && !origin.includes('//'), 'must not hold empty parts');

/** Parses `SALLYPORT_WITNESSES`: `<verifier key> <url>`, comma separated. */
export function readWitnesses(text: string): readonly Witness[] {
  const given = text.split(',').map((one) => one.trim());
  return asSetting('SALLYPORT_WITNESSES', () => {
    const witnesses = given.filter((one) => one !== '').map(readWitness);
    const names = new Set(witnesses.map(({ verifier }) => verifier.name));
    if (names.size < witnesses.length) throw new TypeError('two witnesses have the same name');
    return witnesses;
  });
}

function readWitness(text: string): Witness {
  const [vkey = '', address = '', ...rest] = text.split(/\s+/);
  const verifier = parseVkey(vkey);
  if (verifier.algorithm !== 'cosignature') {
    throw new TypeError(`the verifier key of ${verifier.name} is not a witness key (type 0x04)`);
  }
  const url = URL.parse(address);
  const isHttp = url?.protocol === 'https:' || url?.protocol === 'http:';
  if (url === null || !isHttp || url.search !== '' || url.hash !== '' || rest.length > 0) {
    throw new TypeError(
      `the verifier key of ${verifier.name} must be followed by its URL and nothing else`,
    );
  }
  return { verifier, url: url.href.replace(/\/+$/, '') };
}
