import type { AddressInfo } from 'node:net';
import { createApp } from '../../control-plane/app.ts';
import { createHttpServer } from '../../control-plane/platform/http/server.ts';
import { allRoutes } from '../../control-plane/routes.ts';
import { newId } from '../../shared/base/ids.ts';
import { openApiDocument } from '../../shared/contract/base/openapi.ts';
import type { AnyOperation } from '../../shared/contract/base/operation.ts';
import {
  sidecarTokenAudience,
  sidecarTokenSecondsMax,
  sidecarTokenType,
} from '../../shared/contract/sidecar-token.ts';
import { signJws } from '../../shared/crypto/jws.ts';
import {
  type EnrolledSidecar,
  enrolledSidecar,
} from '../support/control-plane/enrolled-sidecar.ts';
import { roomyLimits, startGateway } from '../support/control-plane/gateway.ts';
import { freshDatabase, startPostgres } from '../support/programs/postgres.ts';

interface Instance {
  /** Origin of the control plane, without a path. */
  readonly origin: string;
  readonly document: object;
  /** API key of the tenant's owner, with gateway scope. */
  readonly key: string;
  close(): Promise<void>;
}

/**
 * Starts a control plane with every route, on a real Postgres and with unlimited request budgets.
 * Calls operations for sidecars as an enrolled sidecar, with a new token for each call, because a
 * token is valid for only a minute.
 */
export async function startInstance(): Promise<Instance> {
  const postgres = await startPostgres();
  const database = await freshDatabase(postgres.url);
  const gateway = await startGateway({ databaseUrl: database.url });
  const { services, api } = gateway;
  const sidecar = await enrolledSidecar(gateway, await gateway.agent());
  const routes = allRoutes(services);
  const app = createApp(routes, services, { limits: roomyLimits });
  const isForSidecars = pathsOf(routes.map(({ operation }) => operation));
  const server = createHttpServer((req, res) => {
    if (req.headers.authorization !== undefined && isForSidecars(req.url ?? '')) {
      req.headers.authorization = `Bearer ${tokenOf(sidecar, services.clock.now())}`;
    }
    app(req, res);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const ticks = setInterval(() => services.clock.advance(1_000), 1_000);
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    document: openApiDocument(routes.map(({ operation }) => operation)),
    key: await api.key({ scope: 'gateway' }),
    close: async () => {
      clearInterval(ticks);
      server.closeAllConnections();
      server.close();
      await gateway.close();
      await postgres.stop();
    },
  };
}

function tokenOf({ id, enrolment }: EnrolledSidecar, nowMs: number): string {
  const now = Math.floor(nowMs / 1000);
  const times = { iat: now, exp: now + sidecarTokenSecondsMax, jti: newId('st', nowMs) };
  const claims = { iss: id, sub: id, aud: sidecarTokenAudience, ...times };
  return signJws(claims, sidecarTokenType, enrolment.signingKey);
}

function pathsOf(operations: readonly AnyOperation[]): (url: string) => boolean {
  const forms = operations
    .filter(({ auth }) => auth === 'sidecar')
    .map(({ path }) => new RegExp(`^/api${path.replaceAll(/\\{\\w+\\}/g, '[^/]+')}($|[?])`));
  return (url) => forms.some((form) => form.test(url));
}
