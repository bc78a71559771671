import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import fastJsonPatch, { type Operation } from 'fast-json-patch';
import { type Cleanup, listening, temporaryFolder, testAuthority } from '../sidecar/proxy.ts';

interface Stored {
  readonly metadata: {
    readonly name: string;
    readonly resourceVersion?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly [field: string]: unknown;
}

export interface ApiServer {
  readonly url: string;
  readonly access: { readonly tokenFile: string; readonly caFile: string };
  /** Returns the object at a path, or undefined if there is none. */
  object(path: string): Stored | undefined;
  put(path: string, object: Stored): void;
  /** Requests that changed something, such as `PUT /api/v1/…`. */
  readonly writes: readonly string[];
  /** Makes all later writes below this path fail with 403, as if the permission were missing. */
  forbid(path: string | undefined): void;
}

const token = 'token-of-the-service-account';

/**
 * Starts a stand-in for the Kubernetes API server, over TLS, for a few objects. It supports
 * resource versions and their conflicts, JSON Patch with `test`, and the token of a service
 * account.
 */
export async function openApiServer(cleanup: Cleanup): Promise<ApiServer> {
  const folder = temporaryFolder(cleanup);
  const access = { tokenFile: join(folder, 'token'), caFile: join(folder, 'ca.crt') };
  const authority = testAuthority(cleanup);
  writeFileSync(access.tokenFile, `${token}\n`);
  writeFileSync(access.caFile, authority.certPem);
  const objects = new Map<string, Stored>();
  const writes: string[] = [];
  const state: Faults = { forbidden: undefined };
  const { cert, key } = authority.leafFor('127.0.0.1');
  const server = createServer({ cert, key }, (req, res) => {
    handle(req, { objects, writes, state }).then(
      ({ status, body }) => send(res, status, body),
      (error: Error) => send(res, 400, { message: error.message }),
    );
  });
  const port = await listening(server, cleanup);
  return {
    url: `https://127.0.0.1:${port}`,
    access,
    writes,
    object: (path) => objects.get(path),
    put: (path, object) => store(objects, path, object),
    forbid: (path) => {
      state.forbidden = path;
    },
  };
}

interface Faults {
  forbidden: string | undefined;
}

interface State {
  readonly objects: Map<string, Stored>;
  readonly writes: string[];
  readonly state: Faults;
}

interface Reply {
  readonly status: number;
  readonly body: unknown;
}

async function handle(req: IncomingMessage, { objects, writes, state }: State): Promise<Reply> {
  const { method = '', url: path = '' } = req;
  if (req.headers.authorization !== `Bearer ${token}`) return status(401, 'Unauthorized');
  const body: unknown = method === 'GET' ? undefined : await json(req);
  if (method !== 'GET') {
    writes.push(`${method} ${path}`);
    if (state.forbidden !== undefined && path.startsWith(state.forbidden)) {
      return status(403, `${path} is forbidden`);
    }
  }
  switch (method) {
    case 'POST':
      return create(objects, path, body as Stored);
    case 'PUT':
      return replace(objects, path, body as Stored);
    case 'PATCH':
      return patch(objects, path, body as Operation[]);
    default:
      return found(objects, path);
  }
}

function found(objects: Map<string, Stored>, path: string): Reply {
  const object = objects.get(path);
  return object === undefined ? status(404, `${path} not found`) : { status: 200, body: object };
}

function create(objects: Map<string, Stored>, collection: string, object: Stored): Reply {
  const path = `${collection}/${object.metadata.name}`;
  if (objects.has(path)) return status(409, `${path} already exists`);
  store(objects, path, object);
  return { status: 201, body: objects.get(path) };
}

function replace(objects: Map<string, Stored>, path: string, object: Stored): Reply {
  const current = objects.get(path);
  if (current === undefined) return status(404, `${path} not found`);
  const { resourceVersion } = object.metadata;
  if (resourceVersion !== undefined && resourceVersion !== current.metadata.resourceVersion) {
    return status(409, 'the object has been modified');
  }
  store(objects, path, object);
  return found(objects, path);
}

function patch(objects: Map<string, Stored>, path: string, operations: Operation[]): Reply {
  const current = objects.get(path);
  if (current === undefined) return status(404, `${path} not found`);
  try {
    const { newDocument } = fastJsonPatch.applyPatch(structuredClone(current), operations, true);
    store(objects, path, newDocument);
    return found(objects, path);
  } catch {
    return status(422, 'the patch does not apply');
  }
}

function store(objects: Map<string, Stored>, path: string, object: Stored): void {
  const metadata = { ...object.metadata, resourceVersion: randomUUID() };
  objects.set(path, { ...object, metadata });
}

function status(code: number, message: string): Reply {
  return { status: code, body: { kind: 'Status', apiVersion: 'v1', code, message } };
}

function send(res: ServerResponse, code: number, body: unknown): void {
  res.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
