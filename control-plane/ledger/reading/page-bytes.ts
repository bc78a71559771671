/**
 * A page ends with the row that reaches this size. The limit is needed because a single event can
 * have a megabyte.
 */
export const pageBytesMax = 4 * 1_048_576;

interface Page {
  /** Selected columns. */
  readonly columns: string;
  /** Statement that reads the page without the size limit. */
  readonly rows: string;
  /** Name of the column that orders the rows. */
  readonly order: string;
  readonly bytesMax?: number | undefined;
}

/**
 * Returns a statement that reads the first rows of a page, up to the size limit. The last column of
 * each row is the number of rows that the page would have without the size limit.
 */
export function boundByBytes({ columns, rows, order, bytesMax = pageBytesMax }: Page): string {
  return `SELECT ${columns}, found
    FROM (SELECT *, count(*) OVER () AS found,
                 sum(octet_length(canonical)) OVER (ORDER BY ${order} ROWS UNBOUNDED PRECEDING)
                 - octet_length(canonical) AS bytes_before
            FROM (${rows}) AS page) AS counted
   WHERE bytes_before < ${bytesMax} ORDER BY ${order}`;
}
