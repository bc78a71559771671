import { type CallToolResult, fromJsonSchema, type McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';

/** A PNG image of one red pixel. */
export const png =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==';
const wav = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=';

export function text(value: string): CallToolResult {
  return { content: [{ type: 'text', text: value }] };
}

const embedded = (uri: string, value: string) => ({
  type: 'resource' as const,
  resource: { uri, mimeType: 'text/plain', text: value },
});

/** Registers tools that answer at once, under the names that the conformance suite uses. */
export function registerPlainTools(server: McpServer): void {
  const tool = (name: string, answer: () => CallToolResult) =>
    server.registerTool(name, { description: `The suite's ${name}` }, answer);
  tool('test_simple_text', () => text('This is a simple text response for testing.'));
  tool('test_image_content', () => ({
    content: [{ type: 'image', data: png, mimeType: 'image/png' }],
  }));
  tool('test_audio_content', () => ({
    content: [{ type: 'audio', data: wav, mimeType: 'audio/wav' }],
  }));
  tool('test_embedded_resource', () => ({
    content: [embedded('test://embedded-resource', 'This is an embedded resource content.')],
  }));
  tool('test_multiple_content_types', () => ({
    content: [
      { type: 'text', text: 'Multiple content types test:' },
      { type: 'image', data: png, mimeType: 'image/png' },
      embedded('test://mixed-content-resource', '{"test":"data","value":123}'),
    ],
  }));
  tool('test_error_handling', () => {
    throw new Error('This tool intentionally returns an error for testing');
  });
  server.registerTool(
    'json_schema_2020_12_tool',
    { description: 'Keywords of JSON Schema 2020-12', inputSchema: fromJsonSchema(schema2020) },
    () => text('ok'),
  );
  server.registerTool(
    'test_x_mcp_header',
    {
      description: 'An argument that is repeated in a header',
      inputSchema: z.object({ region: z.string().meta({ 'x-mcp-header': 'Region' }) }),
    },
    ({ region }) => text(region),
  );
}

const schema2020 = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object' as const,
  $defs: {
    address: {
      $anchor: 'addressDef',
      type: 'object',
      properties: { street: { type: 'string' }, city: { type: 'string' } },
    },
  },
  properties: {
    name: { type: 'string' },
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: { type: 'string' },
    email: { type: 'string' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  // biome-ignore-start lint/suspicious/noThenProperty: it is JSON Schema
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  then: { required: ['phone'] },
  else: { required: ['email'] },
  // biome-ignore-end lint/suspicious/noThenProperty: it is JSON Schema
  additionalProperties: false,
};

/** Registers tools that send messages before they answer, or that lose their stream during a call. */
export function registerSpeakingTools(server: McpServer): void {
  server.registerTool('test_tool_with_logging', { description: 'Logs' }, async (ctx) => {
    for (const data of ['Tool execution started', 'Tool processing data', 'Tool completed']) {
      await ctx.mcpReq.notify({ method: 'notifications/message', params: { level: 'info', data } });
    }
    return text('Tool with logging executed successfully');
  });
  server.registerTool('test_logging_tool', { description: 'Logs where asked' }, async (ctx) => {
    await ctx.mcpReq.log('info', 'only for those who asked');
    return text('logged');
  });
  server.registerTool('test_tool_with_progress', { description: 'Progress' }, async (ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken ?? 0;
    for (const progress of [0, 50, 100]) {
      await ctx.mcpReq.notify({
        method: 'notifications/progress',
        params: { progressToken, progress, total: 100 },
      });
    }
    return text(String(progressToken));
  });
  server.registerTool('test_reconnection', { description: 'Loses its stream' }, async (ctx) => {
    ctx.http?.closeSSE?.();
    // The response is late, because the suite measures whether a client waits before it reconnects.
    await new Promise((resolve) => setTimeout(resolve, 100));
    return text('The client came again and found its answer.');
  });
}

/**
 * Registers tools that send requests to the client during a call, which only servers with sessions
 * can do.
 */
export function registerAskingTools(server: McpServer): void {
  server.registerTool(
    'test_sampling',
    { description: 'Asks for a completion', inputSchema: z.object({ prompt: z.string() }) },
    async ({ prompt }, ctx) => {
      const { content } = await ctx.mcpReq.requestSampling({
        messages: [{ role: 'user', content: { type: 'text', text: prompt } }],
        maxTokens: 100,
      });
      return text(`LLM response: ${JSON.stringify(content)}`);
    },
  );
  const elicit = (name: string, properties: Record<string, unknown>, required: string[] = []) =>
    server.registerTool(
      name,
      {
        description: 'Asks its user',
        inputSchema: z.object({ message: z.string().default('Please fill in') }),
      },
      async ({ message }, ctx) => {
        const requestedSchema = { type: 'object', properties, required } as never;
        const { action, content } = await ctx.mcpReq.elicitInput({ message, requestedSchema });
        return text(`User response: action=${action}, content=${JSON.stringify(content ?? {})}`);
      },
    );
  elicit('test_elicitation', { response: { type: 'string', description: 'An answer' } }, [
    'response',
  ]);
  elicit('test_elicitation_sep1034_defaults', {
    name: { type: 'string', default: 'John Doe' },
    age: { type: 'integer', default: 30 },
    score: { type: 'number', default: 95.5 },
    status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
    verified: { type: 'boolean', default: true },
  });
  elicit('test_elicitation_sep1330_enums', enumForms);
}

const options = ['option1', 'option2', 'option3'];
const titled = [
  { const: 'value1', title: 'First Option' },
  { const: 'value2', title: 'Second Option' },
  { const: 'value3', title: 'Third Option' },
];
const enumForms = {
  untitledSingle: { type: 'string', enum: options },
  titledSingle: { type: 'string', oneOf: titled },
  legacyEnum: {
    type: 'string',
    enum: ['opt1', 'opt2', 'opt3'],
    enumNames: ['Option One', 'Option Two', 'Option Three'],
  },
  untitledMulti: { type: 'array', minItems: 1, items: { type: 'string', enum: options } },
  titledMulti: { type: 'array', minItems: 1, items: { anyOf: titled } },
};
