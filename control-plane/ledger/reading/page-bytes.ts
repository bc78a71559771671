/** An event may take a megabyte: a page ends with the row that reaches this, however few rows that are. */
export const pageBytesMax = 4 * 1_048_576;

interface Page {
  /** What is selected of each row. */
  readonly columns: string;
  /** Statement of a page bounded by its rows, with these columns. */
  readonly rows: string;
  /** The column that puts them in order. */
  readonly order: string;
  readonly bytesMax?: number | undefined;
}

/** Statement for the first rows of a page, as many as fit; each row ends with how many the page would have had. */
export function boundByBytes({ columns, rows, order, bytesMax = pageBytesMax }: Page): string {
  return `SELECT ${columns}, found
    FROM (SELECT *, count(*) OVER () AS found,
                 sum(octet_length(canonical)) OVER (ORDER BY ${order} ROWS UNBOUNDED PRECEDING)
                 - octet_length(canonical) AS bytes_before
            FROM (${rows}) AS page) AS counted
   WHERE bytes_before < ${bytesMax} ORDER BY ${order}`;
}
