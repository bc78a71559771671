import type { AddressInfo } from 'node:net';
import { type AppOptions, createApp } from '../../../control-plane/app.ts';
import type { Services } from '../../../control-plane/core/services.ts';
import { hashApiKey } from '../../../control-plane/platform/access/key-directory.ts';
import { permissionsOf } from '../../../control-plane/platform/access/roles.ts';
import type { Route } from '../../../control-plane/platform/http/route.ts';
import {
  createHttpServer,
  type ServerLimits,
} from '../../../control-plane/platform/http/server.ts';
import { newId } from '../../../shared/base/ids.ts';
import { type Client, createClient } from '../../../shared/contract/base/client.ts';
import type { KeyScope, Role } from '../../../shared/contract/keys.ts';
import { generateApiKey } from '../../../shared/crypto/api-key.ts';

export interface TestApi {
  /** `http://127.0.0.1:<port>`. */
  readonly origin: string;
  /** Stores a key directly in the database, as if it had been created long ago. */
  key(holder?: KeyHolderOptions): Promise<string>;
  /** Returns a typed client with this key, or with a new key of this holder. */
  client(holder?: KeyHolderOptions | string): Promise<Client>;
  /** Sends a plain request: the path is relative to the origin, and the key is sent as given. */
  send(method: string, path: string, init?: SendOptions): Promise<Answer>;
  close(): Promise<void>;
}

export interface KeyHolderOptions {
  readonly tenantId?: string;
  readonly role?: Role;
  readonly scope?: KeyScope;
  readonly principal?: string;
  readonly agentId?: number;
  readonly expiresAt?: Date;
}

interface SendOptions {
  readonly key?: string;
  /** Body of the request; sent as JSON unless it is text or bytes. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body as JSON; undefined if the body is not JSON. */
  readonly body: Record<string, unknown> | undefined;
}

interface ApiOptions extends AppOptions {
  readonly serverLimits?: ServerLimits;
}

/** Serves routes on a free port of the loopback, as the control plane does. */
export async function startApi(
  routes: readonly Route[],
  services: Services,
  options: ApiOptions = {},
): Promise<TestApi> {
  const server = createHttpServer(createApp(routes, services, options), options.serverLimits);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const origin = `http://127.0.0.1:${port}`;
  const key = (holder: KeyHolderOptions = {}) => insertTestKey(services, holder);
  return {
    origin,
    key,
    client: async (holder = {}) => {
      const token = typeof holder === 'string' ? holder : await key(holder);
      return createClient({ baseUrl: `${origin}/api`, authorization: () => `Bearer ${token}` });
    },
    send: (method, path, init) => send(method, `${origin}${path}`, init),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Returns whether a role has a permission. */
export function holds(role: Role, permission: string): boolean {
  return ([...permissionsOf(role, false)] as string[]).includes(permission);
}

async function insertTestKey(
  { db, vault, clock }: Pick<Services, 'db' | 'vault' | 'clock'>,
  { tenantId = 'default', role = 'owner', scope = 'tenant', ...rest }: KeyHolderOptions,
): Promise<string> {
  const key = generateApiKey();
  await db.apiKey.create({
    data: {
      id: newId('key', clock.now()),
      tenantId,
      name: role,
      hash: hashApiKey(vault, key),
      start: key.slice(0, 8),
      last4: key.slice(-4),
      role,
      scope,
      principal: rest.principal ?? role,
      agentId: rest.agentId ?? null,
      expiresAt: rest.expiresAt ?? null,
      createdBy: 'test',
      createdAt: new Date(clock.now()),
    },
  });
  return key;
}

async function send(
  method: string,
  url: string,
  { key, body, headers = {} }: SendOptions = {},
): Promise<Answer> {
  const isText = typeof body === 'string' || body instanceof Uint8Array;
  const response = await fetch(url, {
    method,
    redirect: 'manual',
    headers: {
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: isText ? (body as string) : JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: readObject(text) };
}

function readObject(text: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}
