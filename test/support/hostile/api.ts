import { allRoutes } from '../../../control-plane/routes.ts';
import { newId } from '../../../shared/base/ids.ts';
import type { AnyOperation } from '../../../shared/contract/base/operation.ts';
import {
  sidecarTokenAudience,
  sidecarTokenSecondsMax,
  sidecarTokenType,
} from '../../../shared/contract/sidecar-token.ts';
import { signJws } from '../../../shared/crypto/jws.ts';
import { heartbeatSection } from '../../../shared/sync/signed-heartbeat.ts';
import { until } from '../base/until.ts';
import { startApi } from '../control-plane/api.ts';
import { type EnrolledSidecar, enrolledSidecar } from '../control-plane/enrolled-sidecar.ts';
import { type Gateway, roomyLimits, startGateway } from '../control-plane/gateway.ts';

export interface HostileRequest {
  readonly body?: string | Buffer | undefined;
  /** Path parameters and query parameters; they are already percent-encoded. */
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
}

export interface Judged {
  readonly operation: string;
  readonly status: number;
  readonly reason: string | undefined;
  readonly ms: number;
  /** The request in a shortened form. */
  readonly sent: string;
  /** True if an action was refused; such a refusal is recorded as evidence. */
  readonly isDecision: boolean;
  /** Sends the same request again. */
  readonly send: () => Promise<Judged>;
}

export interface HostileApi {
  readonly gateway: Gateway;
  /**
   * Sends a request as an owner of gateway scope, or as an enrolled sidecar if the operation is for
   * sidecars.
   */
  send(operation: AnyOperation, request: HostileRequest): Promise<Judged>;
  /** Returns the URL of an operation, and the authorization that it needs. */
  addressOf(operation: AnyOperation): {
    readonly url: string;
    readonly authorization: string | undefined;
  };
  /** Returns the number of requests sent, and the slowest of them. */
  tally(): { readonly requests: number; readonly slowest: Pick<Judged, 'ms' | 'operation'> };
  /** Returns the number of rows in each table. */
  stored(): Promise<Readonly<Record<string, number>>>;
  close(): Promise<void>;
}

/**
 * Starts all operations on a real database, for tests that send requests that no ordinary client
 * would send.
 */
export async function startHostileApi(): Promise<HostileApi> {
  const gateway = await startGateway();
  const { services } = gateway;
  const agentId = await gateway.agent();
  const sidecar = await enrolledSidecar(gateway, agentId);
  const api = await startApi(allRoutes(services), services, { limits: roomyLimits });
  const ownerKey = await api.key({ scope: 'gateway' });
  const authorizationOf = ({ auth }: AnyOperation) =>
    auth === 'none'
      ? undefined
      : auth === 'sidecar'
        ? tokenOf(sidecar, services.clock.now())
        : ownerKey;
  // Waits until the new sidecar's sections are published, so that their rows are not attributed to
  // a request.
  await until(() => isQuiet(gateway), { what: 'the sidecar’s lease and heartbeat are out' });
  let requests = 0;
  let slowest = { ms: 0, operation: 'none' };
  const send: HostileApi['send'] = async (operation, request) => {
    const url = `${api.origin}/api${pathOf(operation, request)}`;
    const token = authorizationOf(operation);
    const before = performance.now();
    const response = await fetch(url, {
      method: operation.method,
      redirect: 'manual',
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(request.body === undefined ? {} : { 'content-type': contentTypeOf(operation) }),
      },
      ...(request.body === undefined ? {} : { body: request.body as string }),
    });
    const answer = await bodyOf(response);
    const ms = Math.round(performance.now() - before);
    requests += 1;
    if (ms > slowest.ms) slowest = { ms, operation: operation.id };
    return {
      operation: operation.id,
      status: response.status,
      reason: typeof answer.reason_code === 'string' ? answer.reason_code : undefined,
      ms,
      sent: `${url.slice(api.origin.length, 200)} ${String(request.body ?? '').slice(0, 300)}`,
      isDecision: answer.evidence_event_id !== undefined,
      send: () => send(operation, request),
    };
  };
  return {
    gateway,
    send,
    addressOf: (operation) => {
      const token = authorizationOf(operation);
      return {
        url: `${api.origin}/api${pathOf(operation, {})}`,
        authorization: token === undefined ? undefined : `Bearer ${token}`,
      };
    },
    tally: () => ({ requests, slowest }),
    stored: () => countRows(gateway),
    close: async () => {
      await api.close();
      await gateway.close();
    },
  };
}

/** Reads only JSON bodies. An endless stream is not read: it is enough that it has begun. */
async function bodyOf(response: Response): Promise<Record<string, unknown>> {
  if (response.headers.get('content-type')?.startsWith('application/json') !== true) {
    await response.body?.cancel();
    return {};
  }
  return (await response.json()) as Record<string, unknown>;
}

function pathOf(operation: AnyOperation, { params = {}, query = {} }: HostileRequest): string {
  const path = operation.path.replaceAll(
    /\{(\w+)\}/g,
    (_match, name: string) => params[name] ?? '1',
  );
  const pairs = Object.entries(query).map(([name, text]) => `${name}=${text}`);
  return pairs.length === 0 ? path : `${path}?${pairs.join('&')}`;
}

function contentTypeOf({ bodyType }: AnyOperation): string {
  return bodyType === 'ndjson' ? 'application/x-ndjson' : 'application/json';
}

function tokenOf({ id, enrolment }: EnrolledSidecar, nowMs: number): string {
  const now = Math.floor(nowMs / 1000);
  const times = { iat: now, exp: now + sidecarTokenSecondsMax, jti: newId('st', nowMs) };
  const claims = { iss: id, sub: id, aud: sidecarTokenAudience, ...times };
  return signJws(claims, sidecarTokenType, enrolment.signingKey);
}

async function isQuiet({ services: { db } }: Gateway): Promise<boolean> {
  const [leases, beats, unsealed] = await Promise.all([
    db.passport.count(),
    db.syncSection.count({ where: { name: heartbeatSection } }),
    db.eventOutbox.count(),
  ]);
  return leases > 0 && beats > 0 && unsealed === 0;
}

/** Tables that are not counted. Refusals are also stored, under their idempotency keys. */
const notCounted = ['idempotency'];

async function countRows({ services: { pool } }: Gateway): Promise<Record<string, number>> {
  const tables = await pool.query<{ name: string }>(
    `select quote_ident(tablename) as name from pg_tables where schemaname = 'public'
       and tablename <> all($1) order by 1`,
    [notCounted],
  );
  const each = tables.rows.map(
    ({ name }) => `select '${name}' as name, count(*)::int from ${name}`,
  );
  const { rows } = await pool.query<{ name: string; count: number }>(each.join(' union all '));
  return Object.fromEntries(rows.map(({ name, count }) => [name, count]));
}
