import express, { type Express, type RequestHandler } from 'express';
import type { Registry } from 'prom-client';
import { answerHealth } from './platform/http/health.ts';

/** Serves the admin port, which requires no API key: health, detailed readiness, and metrics. */
export function createAdminApp(registry: Registry, answerReady: RequestHandler): Express {
  const app = express();
  app.disable('x-powered-by').disable('etag');
  app.use((_req, res, next) => {
    res.setHeader('cache-control', 'no-store').setHeader('x-content-type-options', 'nosniff');
    next();
  });
  app.get('/healthz', answerHealth);
  app.get('/readyz', answerReady);
  app.get('/metrics', answerMetrics(registry));
  return app;
}

export function answerMetrics(registry: Registry): RequestHandler {
  return async (_req, res) => {
    res.type(registry.contentType).end(await registry.metrics());
  };
}
