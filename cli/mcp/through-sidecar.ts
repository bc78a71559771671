import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { z } from 'zod';
import { port, SettingsError } from '../../shared/base/settings.ts';

/** Where the sidecar is, as its own settings say. */
export const sidecarSettings = z.object({
  SALLYPORT_PROXY_HOST: z.string().default('127.0.0.1'),
  SALLYPORT_PROXY_PORT: port(8181),
  SALLYPORT_PROXY_TOKEN: z.string().optional(),
});

interface Call {
  readonly method: 'GET' | 'POST';
  /** Absolute, `http:`. */
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  readonly signal?: AbortSignal;
}

/** Sends requests through the sidecar's proxy, and none any other way. */
export interface Sidecar {
  readonly url: string;
  /** Resolves with the head of the answer; rejects when there is none. */
  send(call: Call): Promise<IncomingMessage>;
  close(): void;
}

export function throughSidecar(settings: z.output<typeof sidecarSettings>): Sidecar {
  const { SALLYPORT_PROXY_HOST: host, SALLYPORT_PROXY_PORT: port } = settings;
  const token = settings.SALLYPORT_PROXY_TOKEN;
  const agent = new Agent({ keepAlive: true });
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    async send({ method, url, headers = {}, body, signal }) {
      const req = request({
        host,
        port,
        agent,
        method,
        path: url,
        signal,
        headers: {
          host: new URL(url).host,
          ...(token === undefined ? {} : { 'proxy-authorization': `Bearer ${token}` }),
          ...(body === undefined ? {} : { 'content-length': String(body.length) }),
          ...headers,
        },
      });
      // An error after the answer began is the answer's to tell.
      req.on('error', () => {});
      req.end(body);
      const [res] = (await once(req, 'response')) as [IncomingMessage];
      return res;
    },
    close: () => agent.destroy(),
  };
}

const manifestForm = z.object({
  /** Why every call of the agent is denied, if so: then it sees no tools either. */
  reason_code: z.string().optional(),
  tools: z.array(
    z.object({
      name: z.string(),
      protocol: z.string(),
      host: z.string(),
      path: z.string().optional(),
    }),
  ),
});

/** Where a stdio server's binding says that the sidecar will look for it. */
export interface Place {
  readonly host: string;
  readonly port: number;
  /** `http://127.0.0.1:7391/mcp`. */
  readonly url: string;
}

/** Asks the sidecar for the binding of this name, so that both halves cannot disagree about it. */
export async function findPlace(sidecar: Sidecar, name: string): Promise<Place> {
  const { tools, reason_code: cause } = manifestForm.parse(JSON.parse(await manifest(sidecar)));
  if (cause !== undefined) {
    throw new SettingsError(
      `The sidecar at ${sidecar.url} denies every call (${cause}); its log and /readyz say what to do.`,
    );
  }
  const binding = tools.find((one) => one.name === name && one.protocol === 'mcp');
  const other = tools.find((one) => one.name === name);
  if (binding === undefined && other !== undefined) {
    throw new SettingsError(
      `The binding ${name} is of protocol ${other.protocol}, for ${other.host}, and is used by other calls. Choose another name for the MCP server: --name NAME, with an MCP binding of that name.`,
    );
  }
  if (binding === undefined) {
    throw new SettingsError(
      `There is no MCP binding ${name} that this agent may call. If GET /api/v1/runtime/bindings shows none of that name, make one with a free port of this machine: PUT /api/v1/runtime/bindings/${name} {"protocol":"mcp","host":"127.0.0.1:7391"}. If it shows one, the agent lacks a capability such as mcp.${name}.*.`,
    );
  }
  const { hostname, port: portText } = new URL(`http://${binding.host}`);
  if (!/^(127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)) {
    throw new SettingsError(
      `The binding ${name} is for ${binding.host}: that of a stdio server names a loopback address and a port, such as 127.0.0.1:7391.`,
    );
  }
  return {
    host: hostname.replaceAll(/[[\]]/g, ''),
    port: Number(portText) || 80,
    url: `http://${binding.host}${binding.path ?? '/mcp'}`,
  };
}

async function manifest(sidecar: Sidecar): Promise<string> {
  const url = 'http://sallyport.internal/manifest';
  const signal = AbortSignal.timeout(10_000);
  let res: IncomingMessage;
  let text = '';
  try {
    res = await sidecar.send({ method: 'GET', url, signal });
    for await (const chunk of res.setEncoding('utf8')) text += chunk;
  } catch (cause) {
    throw new SettingsError(
      `The sidecar does not answer at ${sidecar.url}: is it running there? SALLYPORT_PROXY_HOST and SALLYPORT_PROXY_PORT say where it is.`,
      { cause },
    );
  }
  if (res.statusCode === 407) {
    throw new SettingsError(
      `The sidecar at ${sidecar.url} wants its token: set SALLYPORT_PROXY_TOKEN.`,
    );
  }
  if (res.statusCode !== 200) {
    throw new SettingsError(`The sidecar at ${sidecar.url} is not ready: ${text.slice(0, 300)}`);
  }
  return text;
}
