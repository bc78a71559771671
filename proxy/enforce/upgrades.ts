import { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Upgrade } from '../ingress/options.ts';
import type { EnforceDeps } from './deps.ts';
import { enforce } from './enforce.ts';

const lingerMs = 1_000;

/** What still comes is dropped for a moment, so that the answer gets through; then it is over. */
function linger(socket: Upgrade['socket']): void {
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once('close', () => clearTimeout(timer));
}

/**
 * A request to change protocols, judged like any call. It has left the HTTP server, so it gets an
 * answer of its own for the case that it is refused; if not, the connection is tunnelled.
 */
export async function enforceUpgrade(upgrade: Upgrade, deps: EnforceDeps): Promise<void> {
  const { target, req, socket, head } = upgrade;
  const { scheme, host, port, path } = target;
  const res = new ServerResponse(req);
  res.shouldKeepAlive = false;
  res.assignSocket(socket as Socket);
  res.once('finish', () => {
    res.detachSocket(socket as Socket);
    socket.end();
    linger(socket);
  });
  const gone = new AbortController();
  socket.once('close', () => gone.abort());
  await enforce(
    {
      scheme,
      host,
      port,
      method: req.method ?? 'GET',
      target: path,
      req,
      res,
      upgrade: { socket, head },
      abort: gone,
    },
    deps,
  );
}
