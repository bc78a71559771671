import type { ApprovalVote, Prisma } from '../store/generated/client.ts';
import type { SignedTable, signedColumns } from '../store/signed-columns.ts';
import type { Transaction } from '../store/transaction.ts';
import type { Unverified } from './verified.ts';

/**
 * Names of Prisma's model and delegate for each signed table. Votes have an API of their own,
 * `approval-votes.ts`.
 */
export const delegates = {
  agent: 'agent',
  api_key: 'apiKey',
  approval: 'approval',
  binding_removal: 'bindingRemoval',
  directory_user: 'directoryUser',
  enrolment_rule: 'enrolmentRule',
  enrolment_token: 'enrolmentToken',
  kill_switch: 'killSwitch',
  passport: 'passport',
  policy: 'policy',
  service_account: 'serviceAccount',
  sidecar: 'sidecar',
  signing_key: 'signingKey',
  tenant: 'tenant',
  tool: 'tool',
} as const satisfies { readonly [Table in Exclude<SignedTable, 'approval_vote'>]: string };

/** A table that `signedRows` reads and writes. */
export type StoredTable = keyof typeof delegates;

type DelegateName<Table extends StoredTable> = (typeof delegates)[Table];

type Model<Table extends StoredTable> = Prisma.TypeMap['model'][Capitalize<DelegateName<Table>>];

/** The part of a client or transaction that the signed tables use. */
export type SignedClient = Pick<Transaction, DelegateName<StoredTable> | '$executeRaw'>;

/** A whole row, because verification needs every signed column. */
export type Row<Table extends StoredTable> = Model<Table>['payload']['scalars'];

type Args<
  Table extends StoredTable,
  Operation extends 'findMany' | 'findUnique' | 'create',
> = Model<Table>['operations'][Operation]['args'];

/** A query that returns whole rows. */
export type ListQuery<Table extends StoredTable> = Omit<
  Args<Table, 'findMany'>,
  'select' | 'omit' | 'distinct' | 'cursor'
>;

export type UniqueQuery<Table extends StoredTable> = Omit<
  Args<Table, 'findUnique'>,
  'select' | 'omit'
>;

export type Where<Table extends StoredTable> = NonNullable<Args<Table, 'findMany'>['where']>;

export type NewRow<Table extends StoredTable> = Omit<Args<Table, 'create'>['data'], 'mac'>;

/** Related rows that a query includes. Only approvals have related rows. */
export type Included<Query> = Query extends { readonly include: { readonly votes: unknown } }
  ? { readonly votes: readonly Unverified<ApprovalVote>[] }
  : unknown;

type Columns = typeof signedColumns;

type AddedColumn<Table extends StoredTable> = Columns[Table] extends {
  readonly added: readonly (infer Column)[];
}
  ? Column
  : never;

type SignedColumn<Table extends StoredTable> =
  | Columns[Table]['key'][number]
  | Columns[Table]['signed'][number]
  | AddedColumn<Table>;

/** The values of the key columns, which identify a row. */
export type Key<Table extends StoredTable> = Readonly<
  Pick<Row<Table>, Columns[Table]['key'][number] & keyof Row<Table>>
>;

/** A row's signed columns, with which it is verified. */
export type SignedPart<Table extends StoredTable> = Readonly<
  Pick<Row<Table>, (SignedColumn<Table> | 'mac') & keyof Row<Table>>
>;

/** Columns that a change may set. The key of a row never changes. */
export type Changes<Table extends StoredTable> = Partial<
  Omit<Row<Table>, Columns[Table]['key'][number] | 'mac'>
>;

/** Columns that no signature covers. */
export type UnsignedChanges<Table extends StoredTable> = Partial<
  Omit<Row<Table>, Extract<SignedColumn<Table>, string> | 'mac'>
>;

/** A new row with all its signed columns, so that it can be signed before it is written. */
export type WholeRow<Table extends StoredTable> = NewRow<Table> &
  Pick<Row<Table>, SignedColumn<Table> & keyof Row<Table>>;
