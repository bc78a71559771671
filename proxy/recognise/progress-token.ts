import { isJsonObject, type JsonObject } from '../../shared/base/json.ts';

/** The progress token of an MCP request, in revisions with and without sessions. */
export function progressTokenOf(params: JsonObject | undefined): string | number | undefined {
  const meta = params?._meta;
  const token = isJsonObject(meta) ? meta.progressToken : undefined;
  return typeof token === 'string' || Number.isSafeInteger(token)
    ? (token as string | number)
    : undefined;
}
