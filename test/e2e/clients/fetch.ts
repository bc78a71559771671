import { answerCalls, json } from './lines.ts';

await answerCalls(async (method, url, body) => {
  const response = await fetch(url, { method, headers: json, body: body ?? null });
  const { status, headers } = response;
  return { text: await response.text(), status, location: headers.get('location') };
});
