import { completable, type McpServer, ResourceTemplate } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { png } from './tools.ts';

/** Registers resources under the URIs that the conformance suite reads. */
export function registerResources(server: McpServer): void {
  const plain = { description: 'A text', mimeType: 'text/plain' };
  for (const name of ['static-text', 'watched-resource']) {
    const uri = `test://${name}`;
    server.registerResource(name, uri, plain, () => ({
      contents: [{ uri, mimeType: 'text/plain', text: `The content of ${name}.` }],
    }));
  }
  const binary = 'test://static-binary';
  server.registerResource('static-binary', binary, { mimeType: 'image/png' }, () => ({
    contents: [{ uri: binary, mimeType: 'image/png', blob: png }],
  }));
  server.registerResource(
    'template',
    new ResourceTemplate('test://template/{id}/data', { list: undefined }),
    { mimeType: 'application/json' },
    (uri, { id }) => ({
      contents: [{ uri: uri.href, mimeType: 'application/json', text: JSON.stringify({ id }) }],
    }),
  );
}

const said = (value: string) => ({
  role: 'user' as const,
  content: { type: 'text' as const, text: value },
});

/** Registers prompts under the names that the conformance suite requests. */
export function registerPrompts(server: McpServer): void {
  server.registerPrompt('test_simple_prompt', { description: 'Simple' }, () => ({
    messages: [said('This is a simple prompt for testing.')],
  }));
  const complete = (value: string) =>
    ['paris', 'park', 'party'].filter((one) => one.startsWith(value));
  server.registerPrompt(
    'test_prompt_with_arguments',
    {
      description: 'With arguments',
      argsSchema: z.object({ arg1: completable(z.string(), complete), arg2: z.string() }),
    },
    ({ arg1, arg2 }) => ({ messages: [said(`arg1='${arg1}', arg2='${arg2}'`)] }),
  );
  server.registerPrompt(
    'test_prompt_with_embedded_resource',
    { description: 'With a resource', argsSchema: z.object({ resourceUri: z.string() }) },
    ({ resourceUri: uri }) => ({
      messages: [
        {
          role: 'user',
          content: {
            type: 'resource',
            resource: { uri, mimeType: 'text/plain', text: 'Embedded.' },
          },
        },
        said('Please process the embedded resource above.'),
      ],
    }),
  );
  server.registerPrompt('test_prompt_with_image', { description: 'With an image' }, () => ({
    messages: [
      { role: 'user', content: { type: 'image', data: png, mimeType: 'image/png' } },
      said('Please analyze the image above.'),
    ],
  }));
}
