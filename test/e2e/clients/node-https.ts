import http from 'node:http';
import https from 'node:https';
import { text } from 'node:stream/consumers';
import { answerCalls, type HttpAnswer, json } from './lines.ts';

await answerCalls(
  (method, url, body) =>
    new Promise<HttpAnswer>((resolve, reject) => {
      (url.startsWith('https:') ? https : http)
        .request(url, { method, headers: json })
        .on('error', reject)
        .on('response', (res) => {
          const { statusCode: status = 0, headers } = res;
          text(res).then(
            (all) => resolve({ text: all, status, location: headers.location }),
            reject,
          );
        })
        .end(body);
    }),
);
