// Runs mockttp, the module at BENCH_MOCKTTP, which forwards everything and intercepts TLS. Trusts
// BENCH_CA upstream. Prints its port.
interface Mockttp {
  generateCACertificate(): Promise<object>;
  getLocal(options: { readonly https: object; readonly recordTraffic: boolean }): {
    readonly port: number;
    start(): Promise<void>;
    forAnyRequest(): {
      thenPassThrough(options: {
        readonly additionalTrustedCAs: readonly { readonly cert: string }[];
      }): Promise<unknown>;
    };
  };
}

const { BENCH_CA: cert = '', BENCH_MOCKTTP: path = '' } = process.env;
const mockttp = (await import(path)) as Mockttp;
const https = await mockttp.generateCACertificate();
const server = mockttp.getLocal({ https, recordTraffic: false });
await server.forAnyRequest().thenPassThrough({ additionalTrustedCAs: [{ cert }] });
await server.start();
console.log(JSON.stringify({ port: server.port }));
