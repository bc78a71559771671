import type { ServerResponse } from 'node:http';
import type { Dispatcher } from 'undici';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { classifyFailure } from '../../shared/upstream/connection-failure.ts';
import { withHeader } from '../../shared/upstream/headers.ts';
import type { ResponseFilter } from '../../shared/upstream/response-filter.ts';
import { bufferLimit } from './combine-filters.ts';
import { cutDetails, type ForwardOptions, type Outcome } from './forwarding.ts';
import { AnswerOpening, answerHeaders, filterView } from './response-head.ts';

type Controller = Dispatcher.DispatchController;
type ParsedHeaders = Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseStart']>>[2];

interface RelaySettings {
  readonly res: ServerResponse;
  readonly options: ForwardOptions;
  readonly bodyIdleMs: number;
  readonly resolve: (outcome: Outcome) => void;
}

const nothing = Buffer.alloc(0);

/** Relays one response from an upstream to the agent, and reports once how the relay ended. */
export class ResponseRelay implements Dispatcher.DispatchHandler {
  readonly #res: ServerResponse;
  readonly #options: ForwardOptions;
  readonly #bodyIdleMs: number;
  readonly #resolve: (outcome: Outcome) => void;
  #controller: Controller | undefined;
  #settled = false;
  #status: number | undefined;
  #mode: 'pass' | 'stream' | 'buffer' = 'pass';
  #head: string[] = [];
  #buffered: Buffer[] = [];
  #bufferedBytes = 0;
  #lengthBytes: number | undefined;
  #responseBytes = 0;
  #headWritten = false;
  /** Set while the beginning of a filtered response is held back. */
  #opening: AnswerOpening | undefined;
  #ended = false;
  #waitingForAgent = false;
  #silenceAllowed = false;
  #idle: NodeJS.Timeout | undefined;

  constructor({ res, options, bodyIdleMs, resolve }: RelaySettings) {
    this.#res = res;
    this.#options = options;
    this.#bodyIdleMs = bodyIdleMs;
    this.#resolve = resolve;
  }

  /** False once the relay has ended, successfully or not. */
  get wanted(): boolean {
    return !this.#settled;
  }

  /** Watches for the agent to disconnect and for the caller to abort. */
  watch(): void {
    const { signal } = this.#options;
    if (signal.aborted) {
      this.#onAbort();
      return;
    }
    if (this.#res.destroyed) {
      this.clientGone('The agent was gone already.');
      return;
    }
    this.#res.once('close', this.#onClose);
    signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  clientGone(detail: string): void {
    this.#fail('client_gone', detail);
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller;
    if (this.#settled) controller.abort(new Error('No longer wanted.'));
  }

  onResponseStart(controller: Controller, status: number, headers: ParsedHeaders): void {
    // Interim responses (1xx) concern only this hop (RFC 9110 section 15.2).
    if (status < 200 || this.#settled) return;
    this.#status = status;
    this.#options.onHead?.();
    const lengthKnown = headers['transfer-encoding'] === undefined && status !== 204;
    this.#head = answerHeaders(controller.rawHeaders, lengthKnown, this.#options.responseHeaders);
    const mode = this.#options.filter?.head(status, filterView(headers)) ?? 'pass';
    if (mode === 'cut') {
      this.#cut();
      return;
    }
    const isOpen = this.#res.headersSent;
    const bodiless =
      !isOpen && (status === 204 || status === 304 || this.#res.req.method === 'HEAD');
    this.#mode = bodiless ? 'pass' : mode;
    const length = headers['content-length'];
    if (lengthKnown && !bodiless && !isOpen && length !== undefined)
      this.#lengthBytes = Number(length);
    this.#silenceAllowed = /^text\/event-stream/i.test(String(headers['content-type'] ?? ''));
    if (this.#mode === 'pass') this.#writeHead();
    else if (this.#mode === 'stream') this.#holdOpening();
    if (this.#silenceAllowed && this.#res.req.method === 'GET') this.#endWithSidecar();
    // A response that is complete within this turn needs neither an early head nor a timer.
    process.nextTick(this.#afterTurn);
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    if (this.#settled) return;
    this.#idle?.refresh();
    if (this.#mode === 'buffer') {
      this.#buffer(chunk);
      return;
    }
    const passed = this.#mode === 'pass' ? chunk : this.#filtered(chunk, false);
    if (passed === 'cut') {
      this.#cut();
      return;
    }
    this.#write(passed);
  }

  onResponseEnd(): void {
    if (this.#settled) return;
    this.#ended = true;
    const last = this.#lastBytes();
    if (last === 'cut') {
      this.#cut();
      return;
    }
    const rest = this.#opened(last);
    if (this.#settled) return;
    this.#responseBytes += rest.length;
    const complete = this.#lengthBytes === undefined || this.#lengthBytes === this.#responseBytes;
    if (!complete) {
      this.#fail('upstream.reset', 'The answer is not as long as it said.');
      return;
    }
    if (rest.length === 0) this.#res.end();
    else this.#res.end(rest);
  }

  onResponseError(_controller: Controller, error: Error): void {
    if (this.#settled) return;
    const { failure, detail } = classifyFailure(error, this.#controller !== undefined);
    this.#fail(failure, detail);
  }

  /**
   * Ends an event stream at shutdown if the agent requested one, because such a stream has no end
   * of its own and its client reconnects.
   */
  #endWithSidecar(): void {
    const { ending } = this.#options;
    if (ending?.aborted === true) process.nextTick(this.#onEnding);
    else ending?.addEventListener('abort', this.#onEnding, { once: true });
  }

  #writeHead(): void {
    try {
      // If the head was already sent while the call was held, only the body follows.
      if (!this.#res.headersSent) this.#res.writeHead(this.#status ?? 502, this.#head);
      this.#headWritten = true;
    } catch {
      this.#fail('upstream.reset', 'The answer has a header that cannot be passed on.');
    }
  }

  #holdOpening(): void {
    this.#opening = new AnswerOpening({
      lengthBytes: this.#lengthBytes,
      isEventStream: this.#silenceAllowed,
      release: () => {
        this.#write(this.#opened(nothing));
        if (this.#headWritten && this.#responseBytes === 0) this.#res.flushHeaders();
      },
    });
  }

  /** Stops holding back: writes the head, and returns the held bytes followed by `bytes`. */
  #opened(bytes: Buffer): Buffer {
    const opening = this.#opening;
    if (opening === undefined || this.#settled) return bytes;
    this.#opening = undefined;
    const held = opening.take();
    this.#writeHead();
    return bytes.length === 0 ? held : Buffer.concat([held, bytes]);
  }

  #write(bytes: Buffer): void {
    if (bytes.length === 0 || this.#settled) return;
    if (this.#opening !== undefined) {
      this.#opening.hold(bytes);
      return;
    }
    this.#responseBytes += bytes.length;
    if (this.#res.write(bytes) || this.#waitingForAgent) return;
    this.#waitingForAgent = true;
    this.#controller?.pause();
    this.#res.once('drain', this.#onDrain);
  }

  #buffer(chunk: Buffer): void {
    this.#bufferedBytes += chunk.length;
    const limit = this.#options.filter === undefined ? 0 : bufferLimit(this.#options.filter);
    if (this.#bufferedBytes <= limit) this.#buffered.push(chunk);
    else
      this.#fail('upstream.reset', `The answer is larger than the ${limit} bytes that are read.`);
  }

  /** The bytes that remain to be sent once the upstream has sent everything. */
  #lastBytes(): Buffer | 'cut' {
    if (this.#mode === 'pass') return nothing;
    if (this.#mode === 'stream') return this.#filtered(nothing, true);
    const body = Buffer.concat(this.#buffered);
    const whole = this.#guarded((filter) => filter.whole?.(body) ?? body);
    if (whole === 'cut') return 'cut';
    this.#lengthBytes = undefined;
    this.#head = withHeader(this.#head, 'content-length', String(whole.length));
    this.#writeHead();
    return whole;
  }

  #filtered(bytes: Buffer, last: boolean): Buffer | 'cut' {
    return this.#guarded((filter) => filter.chunk?.(bytes, last) ?? bytes);
  }

  /** Runs the filter. If the filter throws, drops the response, because it was not inspected. */
  #guarded(run: (filter: ResponseFilter) => Buffer | 'cut'): Buffer | 'cut' {
    const { filter } = this.#options;
    if (filter === undefined) return nothing;
    try {
      return run(filter);
    } catch (error) {
      this.#fail('upstream.reset', `The answer could not be read: ${String(error)}`);
      return nothing;
    }
  }

  #cut(): void {
    const cause = this.#options.filter?.cause?.() ?? 'credential.reflected';
    this.#fail(cause, cutDetails[cause]);
  }

  #fail(failure: NonNullable<Outcome['failure']>, detail: string): void {
    if (this.#settled) return;
    this.#settle({ failure, detail });
    this.#controller?.abort(new Error(detail));
    if (this.#headWritten) this.#res.destroy();
  }

  #settle(ending: Pick<Outcome, 'failure' | 'detail'>): void {
    this.#settled = true;
    clearTimeout(this.#idle);
    this.#opening?.drop();
    this.#res.off('close', this.#onClose);
    this.#res.off('drain', this.#onDrain);
    this.#options.signal.removeEventListener('abort', this.#onAbort);
    this.#options.ending?.removeEventListener('abort', this.#onEnding);
    this.#resolve({ status: this.#status, responseBytes: this.#responseBytes, ...ending });
  }

  readonly #afterTurn = (): void => {
    if (this.#settled || this.#ended) return;
    if (this.#headWritten && this.#responseBytes === 0) this.#res.flushHeaders();
    this.#idle = setTimeout(this.#onIdle, this.#bodyIdleMs);
  };

  readonly #onIdle = (): void => {
    if (this.#waitingForAgent) {
      this.clientGone('The agent stopped reading.');
      return;
    }
    if (this.#silenceAllowed) this.#idle?.refresh();
    else this.#fail('upstream.timeout', 'The upstream fell silent within its answer.');
  };

  readonly #onDrain = (): void => {
    this.#waitingForAgent = false;
    this.#idle?.refresh();
    this.#controller?.resume();
  };

  readonly #onClose = (): void => {
    if (this.#settled) return;
    if (this.#ended && this.#res.writableFinished) this.#settle({});
    else this.clientGone('The agent went away.');
  };

  readonly #onEnding = (): void => {
    if (this.#settled || this.#ended) return;
    // Ended normally and not aborted, so that received events stay valid; the client reads the rest
    // from its next stream.
    const held = this.#opened(nothing);
    this.#settle({ failure: 'proxy.draining', detail: 'The sidecar ended.' });
    this.#controller?.abort(new Error('The sidecar ends.'));
    this.#res.end(held);
  };

  readonly #onAbort = (): void => {
    const { reason } = this.#options.signal;
    const known = reason instanceof GatewayError;
    this.clientGone(known ? reason.message : 'The agent went away.');
  };
}
