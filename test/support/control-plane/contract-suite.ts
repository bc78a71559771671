import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { AnyOperation } from '../../../shared/contract/base/operation.ts';

/** Verifies that the examples of each operation match its schemas. */
export function describeContract(operations: readonly AnyOperation[]): void {
  describe.each(operations.map((operation) => [operation.id, operation] as const))(
    'the declaration of %s',
    (_id, operation) => {
      const { body, bodyExample, success } = operation;

      if (body !== undefined) {
        it('has a body example that its schema accepts', () => {
          expect(body.safeParse(bodyExample)).toMatchObject({ success: true });
        });
      }

      if (success.schema !== undefined) {
        it('has a response example that its schema accepts', () => {
          expect(success.schema?.safeParse(success.example)).toMatchObject({ success: true });
        });
      }

      it('has schemas that can be expressed in JSON Schema', () => {
        const ajv = new Ajv2020({ strict: false, validateFormats: false });
        for (const schema of [body, success.schema]) {
          if (schema === undefined) continue;
          const io = schema === body ? 'input' : 'output';
          expect(() =>
            ajv.compile(z.toJSONSchema(schema, { io, unrepresentable: 'any' })),
          ).not.toThrow();
        }
      });
    },
  );
}
