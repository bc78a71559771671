import express, { type Express, type RequestHandler } from 'express';
import type { Registry } from 'prom-client';
import type { DiskWatch } from '../shared/base/disk-watch.ts';
import { openApiDocument } from '../shared/contract/base/openapi.ts';
import { GatewayError } from '../shared/errors/gateway-error.ts';
import { answerMetrics } from './admin-app.ts';
import type { Services } from './core/services.ts';
import { createAuthenticate } from './platform/access/authenticate.ts';
import { type BudgetLimits, createBudgets } from './platform/http/budget.ts';
import { checkOperations } from './platform/http/check-operations.ts';
import { serveDocs } from './platform/http/docs-page.ts';
import { answerHealth, answerReady } from './platform/http/health.ts';
import { createMetrics } from './platform/http/metrics.ts';
import { requestLog } from './platform/http/request-log.ts';
import type { Route } from './platform/http/route.ts';
import { refuseMethod, routerOf } from './platform/http/routing.ts';
import { answerError } from './platform/http/serve-route.ts';

export interface AppOptions {
  readonly limits?: BudgetLimits;
  /** Metrics registry shared with other parts; `/metrics` shows all its metrics. */
  readonly registry?: Registry;
  /** True if a separate admin port serves metrics and detailed readiness. */
  readonly isAdminApart?: boolean;
  /** Set if the database is on this disk. */
  readonly disk?: Pick<DiskWatch, 'isWritable'> | undefined;
  /** Adds pages that are not part of the API, such as the console, before the 404 handler. */
  readonly pages?: (app: Express) => void;
}

/** The control plane's HTTP application: every API route, and pages such as the console. */
export function createApp(
  routes: readonly Route[],
  services: Services,
  options: AppOptions = {},
): Express {
  const operations = routes.map(({ operation }) => operation);
  checkOperations(operations);
  const metrics = createMetrics(options.registry);
  const app = express();
  app.disable('x-powered-by').disable('etag');
  app.enable('case sensitive routing').enable('strict routing');
  // Express parses no query strings, because `validate.ts` parses and validates them.
  app.set('query parser', false);
  app.use(requestLog(services, metrics));

  const guards = {
    authenticate: createAuthenticate(services),
    budgets: createBudgets(services, options.limits),
  };
  const document = openApiDocument(operations);
  serveGet(app, '/api/v1/openapi.json', (_req, res) => res.json(document));
  serveDocs(app, serveGet);
  serveGet(app, '/healthz', answerHealth);
  const isAdminApart = options.isAdminApart === true;
  const { disk } = options;
  serveGet(app, '/readyz', answerReady(services, { disk, isBrief: isAdminApart }));
  if (!isAdminApart) serveGet(app, '/metrics', answerMetrics(metrics.registry));
  app.use('/api', routerOf(routes, guards));
  options.pages?.(app);
  endChain(app);
  return app;
}

function serveGet(app: Express, path: string, handler: RequestHandler): void {
  app
    .route(path)
    .get(handler)
    .all(refuseMethod(['GET']));
}

/**
 * Adds the last handlers. They respond to unknown paths and to Express's own errors, such as a path
 * that is not URL-encoded.
 */
function endChain(app: Express): void {
  app.use((req, res) => {
    answerError(req, res, new GatewayError('request.not_found'));
  });
  const onError: express.ErrorRequestHandler = (thrown, req, res, _next) => {
    const isMalformedPath = thrown instanceof URIError;
    answerError(
      req,
      res,
      isMalformedPath
        ? new GatewayError('request.invalid', { message: 'The path is not URL-encoded.' })
        : thrown,
    );
  };
  app.use(onError);
}
