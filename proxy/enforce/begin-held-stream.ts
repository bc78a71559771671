import type { Exchange } from '../ingress/exchange.ts';
import type { RecognisedAction } from '../recognise/recognition.ts';
import { HeldStream } from './held-stream.ts';

/** Answers an MCP call that reads progress by an event stream, from now on until it is decided. */
export function beginHeldStream(
  exchange: Exchange,
  { form, hints, insteadOf }: Pick<RecognisedAction, 'form' | 'hints' | 'insteadOf'>,
  {
    message,
    headers,
  }: { readonly message: string; readonly headers: Readonly<Record<string, string>> },
): void {
  const { req, res } = exchange;
  const { progressToken } = hints;
  if (form.kind !== 'mcp' || progressToken === undefined || res.destroyed) return;
  // Its refusal is an answer to the server.
  if (insteadOf !== undefined) return;
  if (!acceptsEvents(req.headers.accept ?? '')) return;
  exchange.held = new HeldStream(res, form);
  exchange.held.begin(progressToken, message, headers);
}

/** Whether an `Accept` header names event streams (RFC 9110, section 12.5.1). */
function acceptsEvents(accept: string): boolean {
  return accept.split(',').some((range) => {
    const [type = '', ...parameters] = range.split(';');
    const isRefused = parameters.some((one) => /^\s*q\s*=\s*0(?:\.0*)?\s*$/i.test(one));
    return type.trim().toLowerCase() === 'text/event-stream' && !isRefused;
  });
}
