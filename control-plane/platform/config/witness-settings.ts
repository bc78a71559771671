import { z } from 'zod';
import { asSetting } from '../../../shared/base/settings.ts';
import { type NoteVerifier, parseVkey } from '../../../shared/ledger/note.ts';

/** Somebody outside who signs checkpoints that extend those they signed before. */
export interface Witness {
  /** What its verifier key says. */
  readonly verifier: NoteVerifier;
  /** `add-checkpoint` is below it. */
  readonly url: string;
}

/** A schema-less URL such as `gateway.example`: it begins the name of every ledger. */
export const ledgerOriginSetting = z
  .string()
  .regex(
    /^[0-9A-Za-z][0-9A-Za-z._:/-]{0,99}$/,
    'must be a name like gateway.example, without scheme, spaces or plus signs',
  )
  .refine((origin) => !origin.endsWith('/') && !origin.includes('//'), 'must not hold empty parts');

/** The value of `SALLYPORT_WITNESSES`: `<verifier key> <url>`, comma separated. */
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
    throw new TypeError(`the verifier key of ${verifier.name} is not one of a witness (type 0x04)`);
  }
  const url = URL.parse(address);
  const isHttp = url?.protocol === 'https:' || url?.protocol === 'http:';
  if (url === null || !isHttp || url.search !== '' || url.hash !== '' || rest.length > 0) {
    throw new TypeError(
      `after the verifier key of ${verifier.name} goes its URL, and nothing else`,
    );
  }
  return { verifier, url: url.href.replace(/\/+$/, '') };
}
