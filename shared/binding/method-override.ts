import { GatewayError } from '../errors/gateway-error.ts';

// What PHP, Rack, qs and their like drop or rewrite before, and what may follow, the name that
// counts: PHP reads `.method` and `[method` as `_method`, qs reads `[_method]`, and all an array.
const parameterForm =
  /^(?:[-_.\s[\]?+]+(?:http[-_.\s]?)?method|[-_.\s[\]?+]*x[-_.\s](?:http[-_.\s]?)?(?:method|verb)(?:[-_.\s]?override)?)(?:[-.\s[\]].*)?$/s;
const headerForm = /^-*(?:x-)?(?:http-?)?(?:method|verb)(?:-?override)?$/;
const invisible = /[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]/gu;
const decodingsMax = 3;

/**
 * Refuses parameters by which a framework takes a POST for another method: `_method` in whatever
 * spelling PHP, Rack, Rails, qs, Spring, ASP.NET or Salesforce reads it. `names` are decoded once.
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

/** True for a header by which a framework takes a request for another method. */
export function isMethodHeader(name: string): boolean {
  return headerForm.test(name.toLowerCase().replaceAll('_', '-'));
}

/** The name as a C reader has it, which ends at NUL, and as one that skips what is invisible. */
function looseReadings(name: string): readonly string[] {
  let read = name;
  for (let round = 0; round < decodingsMax && read.includes('%'); round++) read = decoded(read);
  return [read.split('\0', 1)[0] ?? '', read].map((text) =>
    text.normalize('NFKC').replace(invisible, '').toLowerCase(),
  );
}

/** `%XX` and the `%uXXXX` of IIS, malformed UTF-8 included: only ASCII counts here. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text.replace(/%(?:u([0-9a-f]{4})|([0-9a-f]{2}))/gi, (_, unit, byte) =>
      String.fromCharCode(Number.parseInt(unit ?? byte, 16)),
    );
  }
}
