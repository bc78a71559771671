import { X509Certificate } from 'node:crypto';
import { z } from 'zod';
import { asSetting, type SettingsSource } from '../../../shared/base/settings.ts';

/** A cluster whose service account tokens are accepted. Files are read again at each use. */
export interface OidcIssuer {
  /** Exactly the `iss` of its tokens. */
  readonly issuer: string;
  /** Undefined: from the issuer's discovery document. */
  readonly jwksUrl: string | undefined;
  /** The keys themselves, for clusters without a reachable URL. */
  readonly jwksFile: string | undefined;
  /** PEM; the only authorities to trust for this issuer's URLs. Undefined: those of Node. */
  readonly caFile: string | undefined;
  /** Bearer token for the issuer and `jwksUrl`; it is sent to no other origin. */
  readonly tokenFile: string | undefined;
  readonly tokenReview: TokenReviewSettings | undefined;
}

/** The API server that reviews each token. */
export interface TokenReviewSettings {
  readonly url: string;
  readonly caFile: string | undefined;
  readonly tokenFile: string;
}

const setting = 'SALLYPORT_OIDC_ISSUERS';

const httpsUrl = z.string().refine((text) => {
  const url = URL.parse(text);
  return url?.protocol === 'https:' && url.username === '' && url.hash === '';
}, 'must be a URL that begins with https://');

const path = z.string().min(1);

const issuerForm = z
  .strictObject({
    issuer: httpsUrl,
    jwks_url: httpsUrl.optional(),
    jwks_file: path.optional(),
    ca_file: path.optional(),
    token_file: path.optional(),
    token_review: z
      .strictObject({ url: httpsUrl, ca_file: path.optional(), token_file: path })
      .optional(),
  })
  .refine(
    ({ jwks_url, jwks_file }) => jwks_url === undefined || jwks_file === undefined,
    'set jwks_url or jwks_file, not both',
  );

/** Parses `SALLYPORT_OIDC_ISSUERS`, a JSON array, and checks that its files can be read. */
export function readIssuers(
  text: string,
  readFile: SettingsSource['readFile'],
): readonly OidcIssuer[] {
  if (text === '') return [];
  return asSetting(setting, () => {
    const issuers = parse(text);
    const repeated = issuers.find(
      ({ issuer }, index) => issuers.findIndex((one) => one.issuer === issuer) < index,
    );
    if (repeated !== undefined) throw new TypeError(`${repeated.issuer} is listed twice`);
    for (const one of issuers) checkFiles(one, readFile);
    return issuers;
  });
}

function parse(text: string): readonly OidcIssuer[] {
  const read = z.array(issuerForm).safeParse(jsonOf(text));
  if (!read.success) {
    const [issue] = read.error.issues;
    const [index, ...rest] = issue?.path ?? [];
    const where = index === undefined ? '' : `entry ${Number(index) + 1} ${rest.join('.')}: `;
    throw new TypeError(`${where}${issue?.message}`);
  }
  return read.data.map((one) => ({
    issuer: one.issuer,
    jwksUrl: one.jwks_url,
    jwksFile: one.jwks_file,
    caFile: one.ca_file,
    tokenFile: one.token_file,
    tokenReview: one.token_review && {
      url: one.token_review.url.replace(/\/+$/, ''),
      caFile: one.token_review.ca_file,
      tokenFile: one.token_review.token_file,
    },
  }));
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new TypeError('must be a JSON array, such as [{"issuer":"https://issuer.example"}]');
  }
}

function checkFiles(
  { jwksFile, caFile, tokenFile, tokenReview }: OidcIssuer,
  readFile: SettingsSource['readFile'],
): void {
  for (const file of [caFile, tokenReview?.caFile]) {
    if (file === undefined) continue;
    const pem = readable(file, readFile);
    try {
      new X509Certificate(pem);
    } catch {
      throw new TypeError(`ca_file ${file} contains no PEM certificate`);
    }
  }
  for (const file of [jwksFile, tokenFile, tokenReview?.tokenFile]) {
    if (file !== undefined) readable(file, readFile);
  }
}

function readable(file: string, readFile: SettingsSource['readFile']): string {
  try {
    return readFile(file);
  } catch {
    throw new TypeError(`the file ${file} cannot be read`);
  }
}
