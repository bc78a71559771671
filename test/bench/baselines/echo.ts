// Baseline for the control plane's requests: Express that parses a JSON body and sends it back.
import express from 'express';

const app = express();
app.disable('x-powered-by').disable('etag');
app.use(express.json());
app.post('/echo', (req, res) => {
  res.json(req.body);
});
const server = app.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (typeof address === 'object' && address !== null)
    console.log(JSON.stringify({ port: address.port }));
});
