import type { z } from 'zod';
import type { JsonObject } from '../base/json.ts';
import { riskTiers } from '../vocabulary/action.ts';
import { jsonObject } from './base/fields.ts';
import { type Json, named, statedAs } from './base/json-schema.ts';

const orNull = (...forms: readonly Json[]): Json => ({ anyOf: [...forms, { type: 'null' }] });
const anyText = orNull({ type: 'string' });
const anyObject = orNull({ type: 'object' });
const words = orNull({ type: 'array', items: { type: 'string', minLength: 1 } });

/**
 * A tool's manifest as shared/manifest/normalise.ts accepts it: open, because whatever a server
 * says of a tool is part of what is approved.
 */
export const manifest: z.ZodType<JsonObject, JsonObject> = statedAs(
  named('ToolManifest', jsonObject.clone()),
  {
    type: 'object',
    required: ['name'],
    additionalProperties: true,
    properties: {
      name: {
        type: 'string',
        minLength: 1,
        maxLength: 256,
        pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029*]*$',
      },
      title: anyText,
      description: anyText,
      serverOrigin: anyText,
      protocol: anyText,
      publisherIdentity: anyText,
      publisherVerified: orNull({ type: 'boolean' }),
      inputSchema: anyObject,
      outputSchema: anyObject,
      annotations: anyObject,
      oauthScopes: words,
      sideEffectProfile: words,
      riskTier: orNull({ enum: riskTiers }),
      executionCapability: anyText,
      sensitiveDataExposure: anyText,
    },
  },
);
