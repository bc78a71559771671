import { createIngress } from '../../../proxy/ingress/ingress.ts';
import { loadAuthority } from '../../../proxy/tls/authority.ts';
import { createForward } from '../../../proxy/upstream/forward.ts';
import { systemClock } from '../../../shared/base/clock.ts';
import { silentLog } from '../../../shared/base/log.ts';
import { createGuard } from '../../../shared/upstream/address-guard.ts';
import { outboundHeaders } from '../../../shared/upstream/headers.ts';

// Sallyport's own ingress and forwarder without a decision between them. BENCH_DATA is the folder
// with the sidecar's certificate authority; BENCH_CA is the authority that upstream certificates
// are verified against. Prints its port.
const { BENCH_DATA: dataDir = '', BENCH_CA: ca = '' } = process.env;
const guard = createGuard({ allowPrivate: ['127.0.0.0/8'] });
const forward = createForward({ guard, ca: [ca] });
const ingress = createIngress({
  authority: loadAuthority({ dataDir, clock: systemClock }),
  guard,
  log: silentLog,
  passthrough: () => 'intercept',
  onTunnel: () => {},
  handle: async ({ scheme, host, port, method, target, req, res, abort }) => {
    const headers = outboundHeaders(req.rawHeaders);
    const outgoing = { scheme, host, port, method, path: target, headers, body: req };
    const { failure } = await forward(outgoing, res, { signal: abort.signal });
    if (failure !== undefined && !res.headersSent) res.writeHead(502).end(failure);
  },
});
const { port } = await ingress.listen(0);
console.log(JSON.stringify({ port }));
