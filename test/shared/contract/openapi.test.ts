import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { openApiDocument } from '../../../shared/contract/base/openapi.ts';
import { type AnyOperation, operation } from '../../../shared/contract/base/operation.ts';
import * as bindings from '../../../shared/contract/bindings.ts';
import * as credentials from '../../../shared/contract/credentials.ts';
import * as keys from '../../../shared/contract/keys.ts';
import * as users from '../../../shared/contract/users.ts';

const isOperation = (value: unknown): value is AnyOperation =>
  typeof value === 'object' && value !== null && 'method' in value && 'path' in value;
const operations = [bindings, credentials, keys, users].flatMap((module) =>
  Object.values(module).filter(isOperation),
);

interface Document {
  readonly openapi: string;
  readonly info: { readonly version: string };
  readonly paths: Record<string, Record<string, DocumentOperation>>;
  readonly components: { readonly schemas: Record<string, object> };
}
interface DocumentOperation {
  readonly operationId: string;
  readonly security: readonly object[];
  readonly parameters?: readonly { name: string; in: string; required: boolean }[];
  readonly requestBody?: {
    required: boolean;
    content: Record<string, { schema: object; example?: unknown }>;
  };
  readonly responses: Record<
    string,
    {
      description: string;
      content: Record<string, { schema: object; example?: unknown; examples?: object }>;
    }
  >;
}

const documentOf = (given: readonly AnyOperation[]) =>
  openApiDocument(given) as unknown as Document;

describe('the OpenAPI document', () => {
  const document = documentOf(operations);
  const all = Object.values(document.paths).flatMap((path) => Object.values(path));

  it('has OpenAPI version 3.1 and contract version 1.1.1', () => {
    expect([document.openapi, document.info.version]).toEqual(['3.1.0', '1.1.1']);
  });

  it('contains every operation once', () => {
    expect(all.map(({ operationId }) => operationId).sort()).toEqual(
      operations.map(({ id }) => id).sort(),
    );
  });

  it('is valid JSON, and identical for identical operations', () => {
    expect(JSON.stringify(documentOf(operations))).toBe(JSON.stringify(document));
    expect(JSON.parse(JSON.stringify(document))).toEqual(document);
  });

  it('has examples that match its own schemas', () => {
    const ajv = new Ajv2020({ strict: false, validateFormats: false });
    // Compiles one schema, with the document's components for its references.
    const compiled = (schema: object) =>
      ajv.compile({ ...schema, components: document.components });
    for (const one of all) {
      for (const media of Object.values(one.requestBody?.content ?? {})) {
        expect(compiled(media.schema)(media.example), one.operationId).toBe(true);
      }
      for (const { content } of Object.values(one.responses)) {
        const media = content['application/json'];
        if (media?.example === undefined) continue;
        expect(compiled(media.schema)(media.example), one.operationId).toBe(true);
      }
    }
  });

  it('declares the errors of every operation as ApiError, with the codes as examples', () => {
    for (const { responses, operationId } of all) {
      expect(Object.keys(responses), operationId).toEqual(
        expect.arrayContaining(['400', '401', '403', '429', '500']),
      );
      const unauthorized = responses['401']?.content['application/json'];
      expect(unauthorized?.schema).toEqual({ $ref: '#/components/schemas/ApiError' });
      expect(Object.keys(unauthorized?.examples ?? {})).toContain('auth.invalid_key');
    }
    expect(document.components.schemas.ApiError).toMatchObject({ required: ['error'] });
  });

  it('declares the security scheme of each operation, and declares path parameters as required', () => {
    const put = document.paths['/v1/runtime/bindings/{name}']?.put;
    expect(put?.parameters).toMatchObject([{ name: 'name', in: 'path', required: true }]);
    expect(put?.security).toEqual([{ apiKey: [] }]);
    expect(put?.requestBody?.required).toBe(true);
  });

  it('declares an optional request body as not required', () => {
    expect(document.paths['/v1/keys/signing/rotate']?.post?.requestBody?.required).toBe(false);
  });

  it('declares every success status, even a status that an error also uses', () => {
    const odd = operation({
      id: 'odd',
      method: 'POST',
      path: '/v1/odd',
      tag: 'Odd',
      summary: 'Odd',
      auth: 'none',
      success: { status: 400, description: 'As RFC 8628 answers.', schema: z.object({}) },
      alsoStatus: [200],
      errors: ['request.invalid'],
    });
    const responses = documentOf([odd]).paths['/v1/odd']?.post?.responses;
    expect(responses?.['400']?.description).toBe('As RFC 8628 answers.');
    expect(responses?.['200']?.description).toBe('As RFC 8628 answers.');
  });
});
