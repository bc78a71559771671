/**
 * Policies as an author might send them: a valid policy, and functions that change a part of it.
 */
export type Fields = Record<string, unknown>;

export const condition = (fields: Fields = {}): Fields => ({
  path: 'tool.name',
  operator: '==',
  value: 'pay.refund',
  ...fields,
});
export const rule = (fields: Fields = {}): Fields => ({
  name: 'small',
  decision: 'allow',
  reason: 'refund.small_in_scope',
  when: { all: [condition()] },
  ...fields,
});
export const policy = (fields: Fields = {}): Fields => ({
  id: 'refunds',
  version: 1,
  rules: [rule()],
  ...fields,
});
export const withRule = (fields: Fields) => policy({ rules: [rule(fields)] });
export const withWhen = (when: unknown) => withRule({ when });
export const withCondition = (fields: Fields) => withWhen({ all: [condition(fields)] });
export const withApproval = (approval: unknown) =>
  withRule({ decision: 'require_approval', approval });
export const without = (fields: Fields, name: string): Fields => {
  const { [name]: _, ...rest } = fields;
  return rest;
};
