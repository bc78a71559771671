import { readFileSync } from 'node:fs';
import { Agent, request } from 'undici';
import { SettingsError } from '../../shared/base/settings.ts';

/** The API server's address, and the files with which this pod authenticates to it. */
export interface ApiAccess {
  /** `https://10.96.0.1:443` */
  readonly url: string;
  /** The kubelet replaces the files while the pod runs. */
  readonly tokenFile: string;
  readonly caFile: string;
}

/** An error response of the API server. */
export class KubernetesError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.name = 'KubernetesError';
    this.status = status;
  }
}

interface Call {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH';
  readonly path: string;
  readonly body?: unknown;
}

export interface KubernetesApi {
  /** Returns the object in the response. Throws a `KubernetesError` for any status but 2xx. */
  call<Answer>(call: Call): Promise<Answer>;
  close(): Promise<void>;
}

const timeoutMs = 10_000;

/** A client of the API server for the few objects that the injector reads and writes. */
export function openKubernetesApi({ url, tokenFile, caFile }: ApiAccess): KubernetesApi {
  let agent: { readonly ca: string; readonly dispatcher: Agent } | undefined;
  const dispatcher = () => {
    const ca = readAccess(caFile);
    if (agent?.ca === ca) return agent.dispatcher;
    void agent?.dispatcher.close();
    const connect = { ca, timeout: timeoutMs };
    agent = { ca, dispatcher: new Agent({ connect, maxResponseSize: 8 * 1024 ** 2 }) };
    return agent.dispatcher;
  };
  return {
    async call<Answer>({ method, path, body }: Call): Promise<Answer> {
      const type = method === 'PATCH' ? 'application/json-patch+json' : 'application/json';
      const response = await request(`${url}${path}`, {
        method,
        dispatcher: dispatcher(),
        signal: AbortSignal.timeout(timeoutMs),
        headers: {
          authorization: `Bearer ${readAccess(tokenFile).trim()}`,
          accept: 'application/json',
          ...(body === undefined ? {} : { 'content-type': type }),
        },
        body: body === undefined ? null : JSON.stringify(body),
      });
      const text = await response.body.text();
      if (response.statusCode < 200 || response.statusCode > 299) {
        throw new KubernetesError(
          response.statusCode,
          `${method} ${path}: the API server answered ${response.statusCode} (${reasonIn(text)})`,
        );
      }
      return JSON.parse(text) as Answer;
    },
    close: async () => agent?.dispatcher.close(),
  };
}

/** The message of a `Status`. */
function reasonIn(text: string): string {
  try {
    return String((JSON.parse(text) as { readonly message?: unknown }).message).slice(0, 500);
  } catch {
    return 'no message';
  }
}

function readAccess(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw new SettingsError(
      `${path} cannot be read: the injector runs in a pod with the token of its service account.`,
      { cause },
    );
  }
}
