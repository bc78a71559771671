import { z } from 'zod';
import { named } from './base/json-schema.ts';
import { operation } from './base/operation.ts';
import { line } from './base/schemas.ts';

const shared = { tag: 'Users', auth: 'bearer' } as const;

const idParam = z.object({ id: line(200) });

const userRecord = z.object({
  id: z.string(),
  email: z.string().nullable(),
  role: z.string().nullable(),
  updated_at: z.string(),
});
named('User', userRecord);

const userExample = {
  id: 'user_12',
  email: 'dana@customer.example',
  role: 'support_lead',
  updated_at: '2026-07-01T09:00:00.000Z',
};

export const getUser = operation({
  ...shared,
  id: 'getUser',
  method: 'GET',
  path: '/v1/users/{id}',
  summary: 'Get the email and role of a user for policies',
  permission: 'read',
  params: idParam,
  success: {
    status: 200,
    description: 'The user, as policies read it at `user.*`.',
    schema: userRecord,
    example: userExample,
  },
  errors: ['user.not_found'],
});

export const putUser = operation({
  ...shared,
  id: 'putUser',
  method: 'PUT',
  path: '/v1/users/{id}',
  summary: 'Set a user’s email and role for policies',
  description: 'Replaces both fields. A field that is omitted or null is absent for policies.',
  permission: 'settings.write',
  params: idParam,
  body: z.strictObject({
    email: z.email().max(254).nullable().optional(),
    role: line(100).nullable().optional(),
  }),
  bodyExample: { email: 'dana@customer.example', role: 'support_lead' },
  success: {
    status: 200,
    description: 'The stored user.',
    schema: userRecord,
    example: userExample,
  },
  errors: ['args.schema_invalid'],
  accessExample: 'own-name',
});
