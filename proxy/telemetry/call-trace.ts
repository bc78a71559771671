import {
  type Attributes,
  type Context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import type { Exchange } from '../call/exchange.ts';
import type { Recognition } from '../call/recognition.ts';
import type { CallTrace, SentCall } from '../call/tracing.ts';

const propagator = new W3CTraceContextPropagator();
const standardMethods = /^(?:CONNECT|DELETE|GET|HEAD|OPTIONS|PATCH|POST|PUT|TRACE)$/;
const mcpMethodForm = /^[a-z]+(?:\/[A-Za-z_]+){0,2}$/;
const mcpVersionForm = /^\d{4}-\d\d-\d\d$/;

/**
 * Begins the server span of a call, a child of the agent's span if the request names one. Names and
 * values follow the HTTP and MCP semantic conventions (1.41), but omit values that may contain
 * secrets or that the agent can choose: path and query (a binding's template is used instead),
 * session ids and text ids.
 */
export function beginCallTrace(tracer: Tracer, exchange: Exchange): CallTrace {
  const parent = propagator.extract(ROOT_CONTEXT, exchange.req.headers, {
    get: (headers, name) => headers[name],
    keys: (headers) => Object.keys(headers),
  });
  const method = methodOf(exchange.method);
  const attributes = {
    ...targetOf(exchange),
    'network.protocol.version': exchange.req.httpVersion,
  };
  const span = tracer.startSpan(method, { kind: SpanKind.SERVER, attributes }, parent);
  return new Spans(tracer, span, trace.setSpan(parent, span), exchange);
}

class Spans implements CallTrace {
  readonly #tracer: Tracer;
  readonly #span: Span;
  readonly #context: Context;
  readonly #exchange: Exchange;
  /** The name of both spans. */
  #name: string;
  /** The attributes of both spans. */
  #common: Attributes = {};
  #template: string | undefined;
  #upgradedTo: number | undefined;
  #isFailed = false;

  constructor(tracer: Tracer, span: Span, context: Context, exchange: Exchange) {
    this.#tracer = tracer;
    this.#span = span;
    this.#context = context;
    this.#exchange = exchange;
    this.#name = methodOf(exchange.method);
  }

  get traceId(): string {
    return this.#span.spanContext().traceId;
  }

  understood(recognition: Recognition): void {
    this.#common = commonAttributes(recognition, this.#exchange);
    const mcpMethod = this.#common['mcp.method.name'];
    const binding = 'binding' in recognition ? recognition.binding : undefined;
    // The template without its query part.
    this.#template = binding?.path?.split(/\{?\?/, 1)[0];
    if (mcpMethod !== undefined) this.#name = String(mcpMethod);
    else if (this.#template !== undefined) this.#name += ` ${this.#template}`;
    this.#span.updateName(this.#name);
    this.#span.setAttributes(this.#common);
    if (this.#template !== undefined) this.#span.setAttribute('http.route', this.#template);
  }

  decided({ decision, reasonCode, enforced, evidenceId }: Parameters<CallTrace['decided']>[0]) {
    this.#span.setAttributes({
      'sallyport.decision': decision,
      'sallyport.reason_code': reasonCode,
      'sallyport.enforced': enforced,
      ...(evidenceId === undefined ? {} : { 'sallyport.evidence_id': evidenceId }),
    });
    const tool = this.#common['gen_ai.tool.name'];
    // An agent may invent the name of a refused tool, and span names must have few values.
    if (decision !== 'allow' || tool === undefined || !('mcp.method.name' in this.#common)) return;
    this.#name = `${this.#common['mcp.method.name']} ${tool}`;
    this.#span.updateName(this.#name);
  }

  refused({ form, decision = 'deny', reasonCode }: Parameters<CallTrace['refused']>[0]): void {
    this.#span.setAttributes({
      'sallyport.decision': decision,
      'sallyport.reason_code': reasonCode,
    });
    // Over HTTP the status code shows the refusal; over MCP the response is a 200 that holds an
    // error.
    if (form.kind === 'mcp') this.#fail(form.tool === undefined ? reasonCode : 'tool_error');
  }

  sent(target: Parameters<CallTrace['sent']>[0]): SentCall {
    const attributes = {
      ...targetOf(target),
      ...this.#common,
      ...(this.#template === undefined ? {} : { 'url.template': this.#template }),
    };
    const options = { kind: SpanKind.CLIENT, attributes };
    const span = this.#tracer.startSpan(this.#name, options, this.#context);
    const headers: Record<string, string> = {};
    propagator.inject(trace.setSpan(this.#context, span), headers, {
      set: (carrier, name, value) => {
        carrier[name] = value;
      },
    });
    return {
      headers,
      ended: ({ status, failure }) => {
        if (status !== undefined) span.setAttribute('http.response.status_code', status);
        if (status === 101) this.#upgradedTo = status;
        const error = failure ?? (status !== undefined && status >= 400 ? `${status}` : undefined);
        if (error !== undefined) failed(span, error);
        span.end();
      },
    };
  }

  ended({ res }: Parameters<CallTrace['ended']>[0]): void {
    const status = this.#upgradedTo ?? (res.headersSent ? res.statusCode : undefined);
    if (status === undefined) this.#fail('client_gone');
    else {
      this.#span.setAttribute('http.response.status_code', status);
      if (status >= 500) this.#fail(`${status}`);
    }
    this.#span.end();
  }

  #fail(type: string): void {
    if (this.#isFailed) return;
    this.#isFailed = true;
    failed(this.#span, type);
  }
}

function failed(span: Span, type: string): void {
  span.setAttribute('error.type', type);
  span.setStatus({ code: SpanStatusCode.ERROR });
}

function methodOf(method: string): string {
  return standardMethods.test(method) ? method : '_OTHER';
}

function targetOf({
  scheme,
  host,
  port,
  method,
}: Pick<Exchange, 'scheme' | 'host' | 'port' | 'method'>): Attributes {
  return {
    'http.request.method': methodOf(method),
    'server.address': host,
    'server.port': port,
    'url.scheme': scheme,
  };
}

/** The attributes of an MCP message, or of a tool that a binding names. */
function commonAttributes(recognition: Recognition, { req }: Exchange): Attributes {
  const { form } = recognition;
  const tool = recognition.kind === 'action' ? recognition.binding && recognition.tool : undefined;
  const isTool = tool !== undefined && (form.kind === 'http' || form.tool !== undefined);
  const named = isTool
    ? { 'gen_ai.tool.name': toolName(recognition, tool), 'gen_ai.operation.name': 'execute_tool' }
    : {};
  if (form.kind === 'http' || form.method === '') return named;
  const version = req.headers['mcp-protocol-version'];
  return {
    ...named,
    'mcp.method.name': mcpMethodForm.test(form.method) ? form.method : '_OTHER',
    ...(typeof version === 'string' && mcpVersionForm.test(version)
      ? { 'mcp.protocol.version': version }
      : {}),
    ...(typeof form.id === 'number' ? { 'jsonrpc.request.id': `${form.id}` } : {}),
  };
}

/** The tool's name on its MCP server, without Sallyport's prefix for the server. */
function toolName(recognition: Recognition, tool: string): string {
  const server = 'binding' in recognition ? recognition.binding?.name : undefined;
  const prefix = `mcp.${server}.`;
  return tool.startsWith(prefix) ? tool.slice(prefix.length) : tool;
}
