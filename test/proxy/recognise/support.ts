import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import type { Exchange } from '../../../proxy/call/exchange.ts';
import type {
  RecogniseDeps,
  RecognisedAction,
  Recognition,
} from '../../../proxy/call/recognition.ts';
import { limitsByDefault, recognise } from '../../../proxy/recognise/recognise.ts';
import type { Binding } from '../../../shared/binding/binding.ts';
import { compileBindings } from '../../../shared/binding/match.ts';
import type { Outgoing } from '../../../shared/upstream/outgoing.ts';

/** The result of recognising one raw request, or `unparsed` if Node's parser refused the request. */
export type Seen = Recognition | 'unparsed';

interface Where {
  readonly scheme?: 'http' | 'https';
  readonly host?: string;
  readonly port?: number;
}

/** A real HTTP server on loopback that recognises the requests that it receives. */
export class RecogniseServer {
  readonly #server: Server;
  #seen: ((seen: Seen) => void) | undefined;
  readonly #deps: RecogniseDeps;
  #where: Required<Where> = { scheme: 'https', host: 'api.example.com', port: 443 };

  constructor(bindings: readonly Binding[], deps: Partial<RecogniseDeps> = {}) {
    this.#deps = {
      index: compileBindings(bindings),
      toolHasOutputSchema: () => false,
      limits: limitsByDefault,
      ...deps,
    };
    this.#server = createServer((req, res) => {
      const gone = new AbortController();
      res.on('close', () => gone.abort());
      const exchange: Exchange = {
        ...this.#where,
        method: req.method ?? '',
        // The ingress removes scheme and authority from a target in absolute form.
        target: (req.url ?? '').replace(/^https?:\/\/[^/]*/i, ''),
        req,
        res,
        abort: gone,
      };
      void Promise.resolve(recognise(exchange, this.#deps)).then((seen) => {
        this.#seen?.(seen);
        res.setHeader('Connection', 'close');
        res.end();
      });
    });
    this.#server.on('clientError', (_, socket) => {
      this.#seen?.('unparsed');
      socket.destroy();
    });
  }

  async open(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  /** Sends bytes unchanged; resolves with the recognition of the first request in them. */
  async send(raw: string | Buffer, where: Where = {}, end = false): Promise<Seen> {
    this.#where = { scheme: 'https', host: 'api.example.com', port: 443, ...where };
    const { promise, resolve } = Promise.withResolvers<Seen>();
    this.#seen = resolve;
    const socket = connect((this.#server.address() as AddressInfo).port, '127.0.0.1');
    socket.on('error', () => {});
    const bytes = typeof raw === 'string' ? Buffer.from(raw, 'utf8') : raw;
    if (end) socket.end(bytes);
    else socket.write(bytes);
    const seen = await promise;
    this.#seen = undefined;
    socket.destroy();
    return seen;
  }
}

export function expectAction(seen: Seen): RecognisedAction {
  if (seen === 'unparsed' || seen.kind !== 'action') {
    throw new Error(`expected an action, got ${JSON.stringify(seen)}`);
  }
  return seen;
}

/** Returns the code of a refusal, or the kind of any other result. */
export function codeOf(seen: Seen): string {
  if (seen === 'unparsed') return 'unparsed';
  return seen.kind === 'refusal' ? seen.code : seen.kind;
}

/** Returns an outgoing request in a form that tests can compare. */
export function written(outgoing: Outgoing): unknown {
  const { body, ...rest } = outgoing;
  return { ...rest, body: Buffer.isBuffer(body) ? body.toString('utf8') : body };
}
