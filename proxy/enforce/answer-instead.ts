import type { Exchange } from '../ingress/exchange.ts';
import type { RecognisedAction } from '../recognise/recognition.ts';
import { credentialFor } from './credential-for.ts';
import { perform } from './perform.ts';
import { decisionHeader, type Way } from './progress.ts';
import type { CallFacts } from './record.ts';
import { refusedError } from './refuse-mcp.ts';

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
  way: Way,
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
      credential: await credentialFor(call, way.deps),
      evidenceId,
      responseHeaders: decisionHeader('deny', reasonCode, evidenceId),
    },
    way,
  );
}
