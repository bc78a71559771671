import type { CallFacts } from '../call/call-facts.ts';
import type { Exchange } from '../call/exchange.ts';
import type { RecognisedAction } from '../call/recognition.ts';
import { refusedError } from '../mcp/refusal.ts';
import { type CallContext, decisionHeader } from './call-context.ts';
import { credentialFor } from './credential.ts';
import { perform } from './perform.ts';

/**
 * Refuses what a client answers to a question of its MCP server. The server receives an error in
 * its place, because it would wait for the answer for ever, and its own call reports the error.
 */
export async function answerInstead(
  exchange: Exchange,
  call: RecognisedAction,
  refused: {
    readonly facts: CallFacts;
    readonly evidenceId: string;
    readonly reasonCode: string;
  },
  context: CallContext,
): Promise<void> {
  const { insteadOf } = call;
  if (insteadOf === undefined) throw new TypeError('nothing goes in the place of this call');
  const { facts, evidenceId, reasonCode } = refused;
  const message = `Denied: ${reasonCode}. Sallyport refused the client’s answer (evidence ${evidenceId}).`;
  await perform(
    exchange,
    {
      outgoing: insteadOf({ code: refusedError, message }),
      facts,
      binding: call.binding,
      credential: await credentialFor(call, context.deps),
      evidenceId,
      responseHeaders: decisionHeader('deny', reasonCode, evidenceId),
    },
    context,
  );
}
