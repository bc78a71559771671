import type { Dispatcher } from 'undici';
import { inboundHeaders, withHeader } from '../../shared/upstream/headers.ts';

type RawHeaders = Dispatcher.DispatchController['rawHeaders'];

/** The header of an upstream's answer as the agent gets it, with ours in place of its own. */
export function answerHeaders(
  raw: RawHeaders,
  lengthKnown: boolean,
  ours: Readonly<Record<string, string>> = {},
): string[] {
  let answer = inboundHeaders(textOf(raw), lengthKnown);
  for (const [name, value] of Object.entries(ours)) answer = withHeader(answer, name, value);
  return answer;
}

function textOf(raw: RawHeaders): string[] {
  if (!Array.isArray(raw)) return [];
  return raw.map((part) => (typeof part === 'string' ? part : part.toString('latin1')));
}

/** Parsed headers as filters read them. */
export function filterView(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): Readonly<Record<string, string | readonly string[]>> {
  const view: Record<string, string | readonly string[]> = {};
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) view[name] = value;
  return view;
}
