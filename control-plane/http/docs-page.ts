import { hash } from 'node:crypto';

interface DocumentOperation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description?: string;
  readonly security: readonly object[];
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required: boolean;
    readonly schema: object;
  }[];
  readonly requestBody?: { readonly content: Record<string, Media> };
  readonly responses: Record<
    string,
    { readonly description: string; readonly content?: Record<string, Media> }
  >;
}

interface Media {
  readonly schema?: object;
  readonly example?: unknown;
}

interface ApiDocument {
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly paths: Record<string, Record<string, DocumentOperation>>;
}

interface Entry {
  readonly method: string;
  readonly path: string;
  readonly operation: DocumentOperation;
}

const style = `body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:60rem;padding:1rem;color:#1b1f24;background:#fff}
nav ul{columns:2;padding-left:1.2rem}h2{margin-top:3rem;border-bottom:1px solid #d0d7de}
code,pre{font:14px/1.45 ui-monospace,monospace}pre{background:#f6f8fa;padding:.75rem;overflow:auto;border-radius:6px}
.m{display:inline-block;min-width:4.5rem;font-weight:700}table{border-collapse:collapse;width:100%}
td,th{border:1px solid #d0d7de;padding:.3rem .6rem;text-align:left;vertical-align:top}
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}pre{background:#161b22}a{color:#58a6ff}}`;

/** Nothing but the page's own style may load: no script, no outside host. */
export const docsContentSecurityPolicy = `default-src 'none'; style-src 'sha256-${hash('sha256', style, 'base64')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;

/** The OpenAPI document as a page that a human reads. */
export function docsPage(document: object): string {
  const { info, paths } = document as ApiDocument;
  const entries = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      operation,
    })),
  );
  const groups = [...Map.groupBy(entries, ({ operation }) => operation.tags[0] ?? 'other')].sort(
    ([a], [b]) => (a < b ? -1 : 1),
  );
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${htmlText(info.title)} API ${htmlText(info.version)}</title><style>${style}</style></head>
<body><h1>${htmlText(info.title)} API</h1>
<p>${htmlText(info.description)}</p>
<p>Contract version ${htmlText(info.version)}. Paths are below <code>/api</code>. The same as data: <a href="v1/openapi.json">openapi.json</a>.</p>
<nav>${groups.map(navGroup).join('')}</nav>
${groups.map(([tag, members]) => `<h2>${htmlText(tag)}</h2>${members.map(section).join('')}`).join('')}
</body></html>
`;
}

function navGroup([tag, entries]: readonly [string, readonly Entry[]]): string {
  const items = entries.map(
    ({ method, path, operation }) =>
      `<li><a href="#${htmlText(operation.operationId)}">${method} ${htmlText(path)}</a></li>`,
  );
  return `<h3>${htmlText(tag)}</h3><ul>${items.join('')}</ul>`;
}

function section({ method, path, operation }: Entry): string {
  const { operationId, summary, description, parameters = [], requestBody, responses } = operation;
  const needs = operation.security.flatMap((scheme) => Object.keys(scheme)).join(', ') || 'nothing';
  return `<section id="${htmlText(operationId)}"><h3><span class="m">${method}</span> <code>${htmlText(path)}</code></h3>
<p><strong>${htmlText(summary)}</strong></p>${paragraphs(description)}
<p>Authentication: <code>${htmlText(needs)}</code></p>
${parameters.length === 0 ? '' : parameterTable(parameters)}
${requestBody === undefined ? '' : `<h4>Body</h4>${media(requestBody.content)}`}
<h4>Answers</h4><table><tbody>${Object.entries(responses).map(answerRow).join('')}</tbody></table></section>`;
}

function parameterTable(parameters: NonNullable<DocumentOperation['parameters']>): string {
  const rows = parameters.map(
    ({ name, in: place, required, schema }) =>
      `<tr><td><code>${htmlText(name)}</code></td><td>${htmlText(place)}${required ? ', required' : ''}</td><td><code>${htmlText(JSON.stringify(schema))}</code></td></tr>`,
  );
  return `<h4>Parameters</h4><table><tbody>${rows.join('')}</tbody></table>`;
}

function answerRow([status, { description, content }]: [
  string,
  DocumentOperation['responses'][string],
]): string {
  const isSuccess = status.startsWith('2');
  return `<tr><th>${htmlText(status)}</th><td>${paragraphs(description)}${content !== undefined && isSuccess ? media(content) : ''}</td></tr>`;
}

function media(content: Record<string, Media>): string {
  return Object.entries(content)
    .map(([type, { schema, example }]) => {
      const shown =
        example === undefined ? '' : `<pre>${htmlText(JSON.stringify(example, null, 2))}</pre>`;
      return `<p><code>${htmlText(type)}</code></p>${shown}<details><summary>Schema</summary><pre>${htmlText(JSON.stringify(schema, null, 2))}</pre></details>`;
    })
    .join('');
}

function paragraphs(text = ''): string {
  return text
    .split('\n\n')
    .filter((part) => part !== '')
    .map((part) => `<p>${htmlText(part)}</p>`)
    .join('');
}

function htmlText(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
