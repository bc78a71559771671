// The parts of undici that the sidecar uses, without its fetch, caches and mocks. Compared with the
// whole package, they need half the memory and half the time to load.
declare module 'undici/lib/dispatcher/agent.js' {
  import { Agent } from 'undici';
  export = Agent;
}
declare module 'undici/lib/core/connect.js' {
  import { buildConnector } from 'undici';
  export = buildConnector;
}
