import { GatewayError } from '../errors/gateway-error.ts';

// Matches override parameters with the prefixes and suffixes that PHP, Rack, qs and others drop or
// rewrite. PHP reads `.method` and `[method` as `_method`, qs reads `[_method]`, and all of them
// accept array forms such as `_method[]`.
const parameterForm =
  /^(?:[-_.\s[\]?+]+(?:http[-_.\s]?)?method|[-_.\s[\]?+]*x[-_.\s](?:http[-_.\s]?)?(?:method|verb)(?:[-_.\s]?override)?)(?:[-.\s[\]].*)?$/s;
const headerForm = /^-*(?:x-)?(?:http-?)?(?:method|verb)(?:-?override)?$/;
const invisible = /[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]/gu;
const decodingsMax = 3;

/**
 * Refuses parameters that make a framework treat a POST as another method: `_method` in every
 * spelling that PHP, Rack, Rails, qs, Spring, ASP.NET or Salesforce accept. `names` must have been
 * percent-decoded once.
 */
export function refuseMethodOverride(names: Iterable<string>): void {
  for (const name of names) {
    if (!isMethodOverride(name)) continue;
    throw new GatewayError('proxy.method_refused', {
      message: `The argument ${JSON.stringify(name.slice(0, 100))} would change the method; send the method itself.`,
    });
  }
}

function isMethodOverride(name: string): boolean {
  return looseReadings(name).some((read) => parameterForm.test(read));
}

/** True for a header that makes a framework treat a request as another method. */
export function isMethodHeader(name: string): boolean {
  return headerForm.test(name.toLowerCase().replaceAll('_', '-'));
}

/**
 * Returns the forms in which parsers may read a name: cut at NUL (as in C), or complete; both
 * without invisible characters.
 */
function looseReadings(name: string): readonly string[] {
  let read = name;
  for (let round = 0; round < decodingsMax && read.includes('%'); round++) read = decoded(read);
  return [read.split('\0', 1)[0] ?? '', read].map((text) =>
    text.normalize('NFKC').replace(invisible, '').toLowerCase(),
  );
}

/**
 * Decodes `%XX` and the `%uXXXX` of IIS. Malformed UTF-8 is tolerated, because only ASCII matters
 * here.
 */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text.replace(/%(?:u([0-9a-f]{4})|([0-9a-f]{2}))/gi, (_, unit, byte) =>
      String.fromCharCode(Number.parseInt(unit ?? byte, 16)),
    );
  }
}
