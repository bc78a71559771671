import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { z } from 'zod';
import { formatAuthority } from '../../shared/base/host.ts';
import { port, SettingsError } from '../../shared/base/settings.ts';

/** The settings that name the sidecar. */
export const sidecarSettings = z.object({
  SALLYPORT_PROXY_HOST: z.string().default('127.0.0.1'),
  SALLYPORT_PROXY_PORT: port(8181),
  SALLYPORT_PROXY_TOKEN: z.string().optional(),
});

interface Call {
  readonly method: 'GET' | 'POST';
  /** An absolute `http:` URL. */
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  readonly signal?: AbortSignal;
}

/** Sends requests, all of them through the sidecar's proxy. */
export interface Sidecar {
  readonly url: string;
  /** Resolves with the head of the response; rejects if there is no response. */
  send(call: Call): Promise<IncomingMessage>;
  close(): void;
}

export function connectSidecar(settings: z.output<typeof sidecarSettings>): Sidecar {
  const { SALLYPORT_PROXY_HOST: host, SALLYPORT_PROXY_PORT: port } = settings;
  const token = settings.SALLYPORT_PROXY_TOKEN;
  const agent = new Agent({ keepAlive: true });
  return {
    url: `http://${formatAuthority({ host, port })}`,
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
      // An error after the response head is reported by the response.
      req.on('error', () => {});
      req.end(body);
      const [res] = (await once(req, 'response')) as [IncomingMessage];
      return res;
    },
    close: () => agent.destroy(),
  };
}

const manifestForm = z.object({
  /** Present if every call by the agent is denied; the manifest then lists no tools. */
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

/** The address of a binding, at which the sidecar calls the stdio server. */
export interface BindingAddress {
  readonly host: string;
  readonly port: number;
  /** `http://127.0.0.1:7391/mcp`. */
  readonly url: string;
}

/** Reads the binding from the sidecar, so that the bridge and the sidecar use the same address. */
export async function findBinding(sidecar: Sidecar, name: string): Promise<BindingAddress> {
  const { tools, reason_code: cause } = manifestForm.parse(JSON.parse(await manifest(sidecar)));
  if (cause !== undefined) {
    throw new SettingsError(
      `The sidecar at ${sidecar.url} denies every call (${cause}). See its log and /readyz for what to do.`,
    );
  }
  const binding = tools.find((one) => one.name === name && one.protocol === 'mcp');
  const other = tools.find((one) => one.name === name);
  if (binding === undefined && other !== undefined) {
    throw new SettingsError(
      `The binding ${name} has the protocol ${other.protocol} and the host ${other.host}, and other calls use it. Create an MCP binding with another name, and pass it as --name NAME.`,
    );
  }
  if (binding === undefined) {
    throw new SettingsError(
      `This agent has no MCP binding ${name}. If GET /api/v1/runtime/bindings does not list it, create it with a free port of this machine: PUT /api/v1/runtime/bindings/${name} {"protocol":"mcp","host":"127.0.0.1:7391"}. If it is listed, the agent lacks a capability such as mcp.${name}.*.`,
    );
  }
  const { hostname, port: portText } = new URL(`http://${binding.host}`);
  if (!/^(127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)) {
    throw new SettingsError(
      `The binding ${name} has the host ${binding.host}. The binding of a stdio server needs a loopback address with a port, such as 127.0.0.1:7391.`,
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
      `The sidecar does not answer at ${sidecar.url}: is it running there? Set SALLYPORT_PROXY_HOST and SALLYPORT_PROXY_PORT to its address.`,
      { cause },
    );
  }
  if (res.statusCode === 407) {
    throw new SettingsError(
      `The sidecar at ${sidecar.url} requires its token: set SALLYPORT_PROXY_TOKEN.`,
    );
  }
  if (res.statusCode !== 200) {
    throw new SettingsError(`The sidecar at ${sidecar.url} is not ready: ${text.slice(0, 300)}`);
  }
  return text;
}
