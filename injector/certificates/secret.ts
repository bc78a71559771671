import { type KubernetesApi, KubernetesError } from '../kubernetes/api.ts';
import type { Material } from './material.ts';

interface Secret {
  readonly apiVersion: 'v1';
  readonly kind: 'Secret';
  readonly type?: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly resourceVersion?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly data?: Readonly<Record<string, string>>;
}

interface Place {
  readonly namespace: string;
  readonly name: string;
}

/** How often a write is tried again after another replica wrote first. */
const attemptsMax = 5;

/**
 * Reads the shared material, lets `renew` replace it, and stores the replacement. The API server
 * accepts a write only if nobody else wrote since the read, so all replicas agree without a leader.
 */
export async function shareMaterial(
  api: KubernetesApi,
  place: Place,
  renew: (current: Material | undefined) => Material,
): Promise<Material> {
  for (let attempt = 1; ; attempt++) {
    const secret = await read(api, place);
    const current = secret === undefined ? undefined : materialIn(secret);
    const next = renew(current);
    if (next === current) return next;
    try {
      await write(api, place, { secret, material: next });
      return next;
    } catch (error) {
      if (!isConflict(error) || attempt === attemptsMax) throw error;
    }
  }
}

async function read(api: KubernetesApi, place: Place): Promise<Secret | undefined> {
  try {
    return await api.call<Secret>({ method: 'GET', path: pathOf(place) });
  } catch (error) {
    if (error instanceof KubernetesError && error.status === 404) return undefined;
    throw error;
  }
}

async function write(
  api: KubernetesApi,
  { namespace, name }: Place,
  { secret, material }: { readonly secret: Secret | undefined; readonly material: Material },
): Promise<void> {
  const data = {
    'ca.crt': base64(material.authorities.join('')),
    'ca.key': base64(material.authorityKey),
    'tls.crt': base64(material.cert),
    'tls.key': base64(material.key),
  };
  if (secret === undefined) {
    const created: Secret = {
      apiVersion: 'v1',
      kind: 'Secret',
      type: 'Opaque',
      metadata: { name, namespace },
      data,
    };
    const path = pathOf({ namespace, name: '' });
    await api.call({ method: 'POST', path, body: created });
  } else {
    await api.call({ method: 'PUT', path: pathOf({ namespace, name }), body: { ...secret, data } });
  }
}

function materialIn({ data = {} }: Secret): Material | undefined {
  const text = (key: string) => Buffer.from(data[key] ?? '', 'base64').toString('utf8');
  const authorities = text('ca.crt').match(
    /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n/g,
  );
  if (authorities === null) return undefined;
  return { authorities, authorityKey: text('ca.key'), cert: text('tls.crt'), key: text('tls.key') };
}

function isConflict(error: unknown): boolean {
  return error instanceof KubernetesError && error.status === 409;
}

function pathOf({ namespace, name }: Place): string {
  const collection = `/api/v1/namespaces/${namespace}/secrets`;
  return name === '' ? collection : `${collection}/${name}`;
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
