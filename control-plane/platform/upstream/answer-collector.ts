import type { Dispatcher } from 'undici';
import {
  type ConnectionFailure,
  classifyFailure,
} from '../../../shared/upstream/connection-failure.ts';
import type { ResponseFilter } from '../../../shared/upstream/response-filter.ts';

type Controller = Dispatcher.DispatchController;
type ParsedHeaders = Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseStart']>>[2];
export type AnswerHeaders = Readonly<Record<string, string | readonly string[]>>;

/** How a request to an upstream ended. */
export interface UpstreamOutcome {
  /** `unknown`: the request was sent on a connection, but no response arrived. */
  readonly executed: boolean | 'unknown';
  readonly answer?: UpstreamAnswer | undefined;
  readonly failure?: ConnectionFailure | 'credential.reflected' | 'execution.interrupted';
  /** Detail for the evidence; contains no secret. */
  readonly detail?: string | undefined;
}

export interface UpstreamAnswer {
  readonly status: number;
  /** Empty if the response was cut because it contained a secret. */
  readonly headers: AnswerHeaders;
  /** The body as received. A body that is too long is truncated. */
  readonly body: Buffer;
  readonly truncated: boolean;
}

interface CollectorSettings {
  readonly bytesMax: number;
  readonly filter: ResponseFilter | undefined;
  readonly resolve: (outcome: UpstreamOutcome) => void;
}

const nothing = Buffer.alloc(0);

/** Collects one response up to a size limit, and reports once how the request ended. */
export class AnswerCollector implements Dispatcher.DispatchHandler {
  readonly #settings: CollectorSettings;
  #controller: Controller | undefined;
  #isSettled = false;
  #status: number | undefined;
  #headers: AnswerHeaders = {};
  #mode: 'pass' | 'stream' | 'buffer' = 'pass';
  #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(settings: CollectorSettings) {
    this.#settings = settings;
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller;
    if (this.#isSettled) controller.abort(new Error('No longer wanted.'));
  }

  onResponseStart(_controller: Controller, status: number, headers: ParsedHeaders): void {
    // Ignores interim responses, because they concern only the upstream and this hop (RFC 9110
    // section 15.2).
    if (status < 200 || this.#isSettled) return;
    this.#status = status;
    const seen = headersOf(headers);
    const mode = this.#settings.filter?.head(status, seen) ?? 'pass';
    if (mode === 'cut') this.#cut();
    else {
      this.#mode = mode;
      this.#headers = seen;
    }
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    if (this.#isSettled) return;
    const left = this.#settings.bytesMax - this.#bytes;
    this.#chunks.push(chunk.length > left ? chunk.subarray(0, left) : chunk);
    this.#bytes += Math.min(chunk.length, left);
    if (chunk.length > left) this.#end(true);
  }

  onResponseEnd(): void {
    this.#end(false);
  }

  onResponseError(_controller: Controller, error: Error): void {
    const { failure, detail } = classifyFailure(error, this.#controller !== undefined);
    this.stop(failure, detail);
  }

  /** Ends the call without a complete response. */
  stop(failure: NonNullable<UpstreamOutcome['failure']>, detail: string): void {
    const hasAnswer = this.#status !== undefined;
    const executed = hasAnswer ? true : this.#controller === undefined ? false : 'unknown';
    const answer = hasAnswer ? this.#answer(nothing, true) : undefined;
    this.#settle({ executed, answer, failure, detail });
  }

  #end(truncated: boolean): void {
    if (this.#isSettled) return;
    const body = this.#filtered(Buffer.concat(this.#chunks), truncated);
    if (body === 'cut') this.#cut();
    else this.#settle({ executed: true, answer: this.#answer(body, truncated) });
  }

  /**
   * Filters the body. If the body is truncated, removes what may be the beginning of a secret from
   * its end.
   */
  #filtered(body: Buffer, truncated: boolean): Buffer | 'cut' {
    const { filter } = this.#settings;
    try {
      if (this.#mode === 'stream') return filter?.chunk?.(body, !truncated) ?? body;
      // A truncated encoded body cannot be decoded and therefore cannot be filtered.
      if (this.#mode === 'buffer') return truncated ? nothing : (filter?.whole?.(body) ?? body);
      return body;
    } catch {
      // If the filter throws, the response was not checked, so it is dropped.
      return 'cut';
    }
  }

  /** Drops the whole response, including its headers. */
  #cut(): void {
    this.#headers = {};
    this.stop('credential.reflected', 'The upstream sent the credential back.');
  }

  #answer(body: Buffer, truncated: boolean): UpstreamAnswer {
    return { status: this.#status ?? 0, headers: this.#headers, body, truncated };
  }

  #settle(outcome: UpstreamOutcome): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#settings.resolve(outcome);
    this.#controller?.abort(new Error('No longer wanted.'));
  }
}

function headersOf(headers: ParsedHeaders): AnswerHeaders {
  const kept: Record<string, string | readonly string[]> = {};
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) kept[name] = value;
  return kept;
}
