import { request } from 'undici';
import { answerCalls, json } from './lines.ts';

await answerCalls(async (method, url, body) => {
  // The headers are copied, because the dispatcher that Node sets for the environment's proxy adds Host to
  // them.
  const response = await request(url, { method, headers: { ...json }, body: body ?? null });
  const { statusCode: status, headers } = response;
  return { text: await response.body.text(), status, location: String(headers.location ?? '') };
});
