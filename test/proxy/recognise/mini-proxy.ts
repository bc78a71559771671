import { once } from 'node:events';
import { createServer, request, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Exchange } from '../../../proxy/call/exchange.ts';
import type { RecognisedAction } from '../../../proxy/call/recognition.ts';
import { writeRefusal } from '../../../proxy/enforce/write-refusal.ts';
import { type ListedTool, toolsListFilter } from '../../../proxy/mcp/tools-list.ts';
import { limitsByDefault, recognise } from '../../../proxy/recognise/recognise.ts';
import { compileBindings } from '../../../shared/binding/match.ts';
import type { Outgoing } from '../../../shared/upstream/outgoing.ts';
import type { ResponseFilter } from '../../../shared/upstream/response-filter.ts';

interface MiniProxyOptions {
  readonly upstreamPort: number;
  /** Returns the reason code of a refusal, or undefined to allow the action. */
  readonly judge: (action: RecognisedAction) => string | undefined;
  readonly observe: (tool: ListedTool) => 'keep' | 'withhold';
  readonly toolHasOutputSchema: (tool: string) => boolean;
}

/**
 * Puts recognition, refusals and the tool-list filter in front of one MCP server, to test them with real
 * clients. Ingress, decisions and forwarding have their own tests.
 */
export class MiniProxy {
  readonly #server: Server;
  /** The forwarded messages and judged actions, in order. */
  readonly log: string[] = [];

  constructor(options: MiniProxyOptions) {
    const host = `127.0.0.1:${options.upstreamPort}`;
    const index = compileBindings([{ name: 'payments', protocol: 'mcp', host, path: '/mcp' }]);
    const deps = { index, limits: limitsByDefault, ...options };
    this.#server = createServer((req, res) => {
      const exchange: Exchange = {
        scheme: 'http',
        host: '127.0.0.1',
        port: options.upstreamPort,
        method: req.method ?? '',
        target: req.url ?? '',
        req,
        res,
        abort: new AbortController(),
      };
      void Promise.resolve(recognise(exchange, deps)).then((seen) => {
        if (seen.kind === 'refusal') {
          this.log.push(`refused ${seen.code}`);
          return writeRefusal(res, {
            form: seen.form,
            reasonCode: seen.code,
            message: seen.message,
          });
        }
        if (seen.kind === 'pass') {
          this.log.push(`pass ${seen.what}`);
          return forward(seen.outgoing, res, toolsListFilter({ ...options, server: 'payments' }));
        }
        const reasonCode = options.judge(seen);
        this.log.push(`${reasonCode === undefined ? 'allow' : 'deny'} ${seen.tool}`);
        if (reasonCode !== undefined) {
          return writeRefusal(res, { form: seen.form, reasonCode, evidenceEventId: 'ev_1' });
        }
        return forward(seen.build(seen.args), res, undefined);
      });
    });
  }

  async open(): Promise<URL> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return new URL(`http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/mcp`);
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

function forward(outgoing: Outgoing, res: ServerResponse, filter?: ResponseFilter): void {
  const { host, port, method, path, headers, body } = outgoing;
  // Node treats a flat list of headers as the complete head, including Host, so an object is passed.
  const pairs = Array.from({ length: headers.length / 2 }, (_, index) => [
    headers[2 * index] ?? '',
    headers[2 * index + 1] ?? '',
  ]);
  const sent = request(
    { host, port, method, path, headers: Object.fromEntries(pairs) },
    (answer) => {
      const status = answer.statusCode ?? 502;
      const mode = filter?.head(status, answer.headers as Record<string, string>) ?? 'pass';
      const { 'content-length': _, 'transfer-encoding': __, ...kept } = answer.headers;
      res.writeHead(status, kept);
      res.flushHeaders();
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => {
        if (mode === 'buffer') chunks.push(chunk);
        else writeOrCut(res, mode === 'stream' ? filter?.chunk?.(chunk, false) : chunk);
      });
      answer.on('end', () => {
        if (mode === 'buffer') writeOrCut(res, filter?.whole?.(Buffer.concat(chunks)));
        res.end();
      });
      res.on('close', () => sent.destroy());
    },
  );
  sent.on('error', () => res.destroy());
  sent.end(Buffer.isBuffer(body) ? body : undefined);
}

function writeOrCut(res: ServerResponse, bytes: Buffer | 'cut' | undefined): void {
  if (bytes === 'cut' || bytes === undefined) res.destroy();
  else if (bytes.length > 0) res.write(bytes);
}
