import { randomBytes } from 'node:crypto';
import {
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  createRequestStateCodec,
  type InputRequests,
  type InputRequiredResult,
  inputRequired,
  type McpServer,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { text } from './tools.ts';

/** Signs the state that a call must keep between its rounds. */
export const states = createRequestStateCodec<{ readonly round: number }>({
  key: randomBytes(32),
});

const form = (message: string, name: string) =>
  inputRequired.elicit({
    message,
    requestedSchema: {
      type: 'object',
      properties: { [name]: { type: 'string' } },
      required: [name],
    },
  });
const sampling = (prompt: string) =>
  inputRequired.createMessage({
    messages: [{ role: 'user', content: { type: 'text', text: prompt } }],
    maxTokens: 100,
  });

/** Returns a result that requests these inputs, or undefined if the client has answered all of them. */
function ask(
  { mcpReq }: ServerContext,
  inputRequests: InputRequests,
): InputRequiredResult | undefined {
  const answered = mcpReq.inputResponses ?? {};
  return Object.keys(inputRequests).every((key) => Object.hasOwn(answered, key))
    ? undefined
    : inputRequired({ inputRequests });
}

type Answer = CallToolResult | InputRequiredResult;

/**
 * Registers tools and a prompt of revision 2026-07-28 that request missing input in their results.
 */
export function registerInputTools(server: McpServer): void {
  const tool = (name: string, answer: (ctx: ServerContext) => Answer | Promise<Answer>) =>
    server.registerTool(name, { description: `The suite's ${name}` }, answer);
  const asking = (name: string, requests: InputRequests) =>
    tool(
      name,
      (ctx) => ask(ctx, requests) ?? text(`Got ${JSON.stringify(ctx.mcpReq.inputResponses)}`),
    );
  asking('test_input_required_result_elicitation', { user_name: form('Your name?', 'name') });
  asking('test_input_required_result_sampling', { capital: sampling('The capital of France?') });
  asking('test_input_required_result_list_roots', { client_roots: inputRequired.listRoots() });
  asking('test_missing_capability', { capital: sampling('The capital of France?') });
  asking('test_streaming_elicitation', { user_name: form('Your name?', 'name') });
  const stateful: Readonly<Record<string, InputRequests>> = {
    request_state: { confirm: form('Sure?', 'ok') },
    tampered_state: { confirm: form('Sure?', 'ok') },
    multiple_inputs: {
      user_name: form('Your name?', 'name'),
      greeting: sampling('A greeting'),
      client_roots: inputRequired.listRoots(),
    },
  };
  for (const [name, requests] of Object.entries(stateful)) {
    tool(`test_input_required_result_${name}`, async (ctx) => {
      const asked = ask(ctx, requests);
      const requestState = await states.mint({ round: 1 });
      return asked === undefined ? text('state-ok') : { ...asked, requestState };
    });
  }
  tool('test_input_required_result_multi_round', manyRounds);
  tool('test_input_required_result_capabilities', (ctx) => {
    const declared = capabilities(ctx);
    const requests: InputRequests = {};
    if (declared?.elicitation !== undefined) requests.name = form('Your name?', 'name');
    if (declared?.sampling !== undefined) requests.capital = sampling('The capital of France?');
    return ask(ctx, requests) ?? text('ok');
  });
  server.registerPrompt('test_input_required_result_prompt', { description: 'Asks' }, (ctx) => {
    const asked = ask(ctx, { user_context: form('Which context?', 'context') });
    return (
      asked ?? {
        messages: [{ role: 'user', content: { type: 'text', text: 'With the context given.' } }],
      }
    );
  });
}

async function manyRounds(ctx: ServerContext): Promise<Answer> {
  const state = ctx.mcpReq.requestState<{ round: number }>();
  const round = state?.round ?? 0;
  if (round >= 2) return text('Both rounds are done.');
  return inputRequired({
    inputRequests: { [`step${round + 1}`]: form(`Step ${round + 1}`, 'answer') },
    requestState: await states.mint({ round: round + 1 }),
  });
}

/** Returns the client capabilities that this request declares. */
function capabilities({ mcpReq }: ServerContext) {
  const envelope = mcpReq.envelope as Record<string, unknown> | undefined;
  return envelope?.[CLIENT_CAPABILITIES_META_KEY] as
    | { readonly elicitation?: unknown; readonly sampling?: unknown }
    | undefined;
}
