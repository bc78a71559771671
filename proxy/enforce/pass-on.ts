import type { Binding } from '../../shared/binding/binding.ts';
import { splitTarget } from '../../shared/binding/path.ts';
import type { ResponseFilter } from '../../shared/upstream/response-filter.ts';
import type { RecognisedPass } from '../call/recognition.ts';
import { toolsListFilter } from '../mcp/tools-list.ts';
import { recordPass } from '../records/record-decision.ts';
import { assertUnblocked } from './assert-unblocked.ts';
import { type CallContext, decisionHeader, factsOf } from './call-context.ts';
import { credentialForServer } from './credential.ts';
import type { EnforceDeps } from './deps.ts';
import { perform } from './perform.ts';

/**
 * Forwards a request that has no arguments to judge: an MCP server's handshake and lists, a model
 * provider's stream. Requires a fresh replica and no blocking kill switch; the request is recorded
 * like any call.
 */
export async function passOn(context: CallContext, pass: RecognisedPass): Promise<void> {
  const { exchange, deps } = context;
  const { binding, outgoing } = pass;
  const isMcp = binding.protocol === 'mcp';
  if (pass.what === 'mcp/stream') deps.streamOpenings.begin(exchange);
  // The query is omitted, because some clients send API keys in it and ledger entries are
  // permanent.
  const resource = splitTarget(exchange.target).path;
  context.facts = factsOf(exchange, { tool: passedTool(pass), resource });
  assertUnblocked(context.facts.tool, deps);
  const reasonCode = isMcp ? 'binding.mcp_passed' : 'binding.passthrough';
  const evidenceId = await recordPass(reasonCode, context);
  await perform(context, {
    outgoing,
    binding,
    credential: isMcp ? await credentialForServer(binding, deps) : undefined,
    evidenceId,
    filter: watchTools(binding, deps),
    responseHeaders: decisionHeader('allow', reasonCode, evidenceId),
  });
}

/**
 * The tool under which a forwarded request is recorded: `mcp.<server>/<method>`, or
 * `passthrough.<binding>`.
 */
export function passedTool({ binding, what }: Pick<RecognisedPass, 'binding' | 'what'>): string {
  return binding.protocol === 'mcp'
    ? `mcp.${binding.name}/${what.replace(/^mcp\//, '')}`
    : `passthrough.${binding.name}`;
}

/**
 * Returns a filter that compares every tool that an MCP server lists, in any response, with the
 * tool's approved form.
 */
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
