// An API that refunds payments, for callers that send its secret. It serves until you stop it.
import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';

createServer(async (request, response) => {
  const { amount } = (await json(request)) as { readonly amount: number };
  const isKnown = request.headers.authorization === 'Bearer sk_example_secret';
  response.writeHead(isKnown ? 201 : 401, { 'content-type': 'application/json' });
  response.end(JSON.stringify(isKnown ? { refunded: amount } : { error: 'wrong secret' }));
}).listen(9100, '127.0.0.1');
