import type { Binding } from '../../shared/binding/binding.ts';
import { splitTarget } from '../../shared/binding/path.ts';
import type { ResponseFilter } from '../../shared/upstream/response-filter.ts';
import type { Exchange } from '../call/exchange.ts';
import type { RecognisedPass } from '../call/recognition.ts';
import { toolsListFilter } from '../mcp/tools-list.ts';
import { recordPass } from '../records/record-decision.ts';
import { assertUnblocked } from './assert-unblocked.ts';
import { type CallContext, decisionHeader, factsOf } from './call-context.ts';
import { credentialForServer } from './credential.ts';
import type { EnforceDeps } from './deps.ts';
import { perform } from './perform.ts';

/**
 * What carries no arguments to judge: an MCP server's handshake and lists, a model provider's
 * stream. It needs a fresh replica and no kill switch against it, and is recorded like any call.
 */
export async function passOn(
  exchange: Exchange,
  pass: RecognisedPass,
  context: CallContext,
): Promise<void> {
  const { deps, advance } = context;
  const isMcp = pass.binding.protocol === 'mcp';
  if (pass.what === 'mcp/stream') deps.streamOpenings.begin(exchange);
  // Without the query, in which some clients send their own keys: the ledger keeps what it is told.
  const resource = splitTarget(exchange.target).path;
  const facts = factsOf(exchange, { tool: passedTool(pass), resource });
  advance({ facts });
  assertUnblocked(facts.tool, deps);
  const reasonCode = isMcp ? 'binding.mcp_passed' : 'binding.passthrough';
  const evidenceId = await recordPass({ facts, reasonCode }, context);
  await perform(
    exchange,
    {
      outgoing: pass.outgoing,
      facts,
      binding: pass.binding,
      credential: isMcp ? await credentialForServer(pass.binding, deps) : undefined,
      evidenceId,
      filter: watchTools(pass.binding, deps),
      responseHeaders: decisionHeader('allow', reasonCode, evidenceId),
    },
    context,
  );
}

/** `mcp.<server>/<method>`, or `passthrough.<binding>`. */
export function passedTool({ binding, what }: Pick<RecognisedPass, 'binding' | 'what'>): string {
  return binding.protocol === 'mcp'
    ? `mcp.${binding.name}/${what.replace(/^mcp\//, '')}`
    : `passthrough.${binding.name}`;
}

/** Holds every tool that an MCP server lists, on whichever answer, against its approved form. */
export function watchTools(
  binding: Binding | undefined,
  { liveDrift }: Pick<EnforceDeps, 'liveDrift'>,
): ResponseFilter | undefined {
  if (binding?.protocol !== 'mcp') return undefined;
  return toolsListFilter({
    server: binding.name,
    observe: (listed) => liveDrift.observe(listed),
  });
}
