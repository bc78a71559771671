import { type RequestHandler, Router } from 'express';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import { recordOf } from './request-log.ts';
import type { Route } from './route.ts';
import { answerError, type RequestGuards, serveRoute } from './serve-route.ts';

/**
 * Creates one router for all operations. It matches paths without parameters first, so that
 * `/v1/policies/lint` is not taken for `/v1/policies/{id}`. A request whose method is not supported
 * by its path gets 405.
 */
export function routerOf(routes: readonly Route[], guards: RequestGuards): Router {
  const router = Router({ caseSensitive: true, strict: true });
  const byPath = Map.groupBy(routes, ({ operation }) => operation.path);
  const paths = [...byPath.keys()].sort((a, b) => (rank(a) < rank(b) ? -1 : 1));
  for (const path of paths) {
    const here = byPath.get(path) ?? [];
    const at = router.route(patternOf(path, here[0]?.operation.isPathOpen === true));
    for (const route of here) {
      at[methodOf(route)](serveRoute(route, guards));
    }
    at.all(
      refuseMethod(
        here.map(({ operation }) => operation.method),
        here.some(({ operation }) => operation.isDecision === true),
      ),
    );
  }
  return router;
}

/**
 * Converts a path to Express syntax. An open path ends in a wildcard, whose value is an array of
 * segments.
 */
function patternOf(path: string, isOpen: boolean): string {
  const named = isOpen ? path.replace(/\{(\w+)\}$/, '*$1') : path;
  return named.replaceAll(/\{(\w+)\}/g, ':$1');
}

/** Returns a sort key that puts literal segments before parameters, segment by segment. */
function rank(path: string): string {
  return path
    .split('/')
    .map((segment) => (segment.startsWith('{') ? '1' : `0${segment}`))
    .join('/');
}

function methodOf({ operation }: Route) {
  return operation.method.toLowerCase() as 'get' | 'post' | 'put' | 'patch' | 'delete';
}

export function refuseMethod(methods: readonly string[], isDecision = false): RequestHandler {
  const allow = methods.includes('GET') ? [...methods, 'HEAD'] : methods;
  return (req, res) => {
    res.setHeader('allow', allow.join(', '));
    recordOf(res).isDecision = isDecision;
    answerError(req, res, new GatewayError('request.method_not_allowed'));
  };
}
