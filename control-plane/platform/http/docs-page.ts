import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Express, Response } from 'express';

/**
 * This file serves the rendered API reference: Swagger UI from its package, without external
 * resources.
 */

const require = createRequire(import.meta.url);

/** Swagger UI works without inline script and style; its icons are `data:` images. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

// Relative paths work behind a reverse proxy with a path prefix.
const page = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Sallyport API</title><link rel="icon" href="docs/favicon.png">
<link rel="stylesheet" href="docs/swagger-ui.css"></head>
<body><div id="reference"></div><noscript>The same as data: <a href="v1/openapi.json">openapi.json</a>.</noscript>
<script src="docs/swagger-ui-bundle.js"></script><script src="docs/start.js"></script></body></html>
`;

const start = `SwaggerUIBundle({
  url: 'v1/openapi.json',
  dom_id: '#reference',
  deepLinking: true,
  docExpansion: 'none',
  defaultModelsExpandDepth: 0,
  filter: true,
  tryItOutEnabled: true,
  validatorUrl: null,
});
`;

interface Asset {
  readonly type: string;
  readonly content: () => string | Buffer;
}

const fromPackage = (type: string, file: string): Asset => {
  let held: Buffer | undefined;
  return {
    type,
    content: () => {
      held ??= readFileSync(require.resolve(`swagger-ui-dist/${file}`));
      return held;
    },
  };
};

const assets: Readonly<Record<string, Asset>> = {
  '/api/docs': { type: 'text/html', content: () => page },
  '/api/docs/start.js': { type: 'text/javascript', content: () => start },
  '/api/docs/swagger-ui-bundle.js': fromPackage('text/javascript', 'swagger-ui-bundle.js'),
  '/api/docs/swagger-ui.css': fromPackage('text/css', 'swagger-ui.css'),
  '/api/docs/favicon.png': fromPackage('image/png', 'favicon-32x32.png'),
};

type ServeGet = (
  app: Express,
  path: string,
  handler: (req: unknown, res: Response) => void,
) => void;

/** Serves the reference at `/api/docs`; it loads `/api/v1/openapi.json`. */
export function serveDocs(app: Express, serveGet: ServeGet): void {
  for (const [path, { type, content }] of Object.entries(assets)) {
    serveGet(app, path, (_req, res) => {
      res.setHeader('content-security-policy', contentSecurityPolicy);
      res.type(type).end(content());
    });
  }
}
