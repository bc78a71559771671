/** Where `/v1/actions/execute` forwards a bound tool. */
export interface BindingUpstream {
  readonly url: string;
  readonly method: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/**
 * What a host, or a call on it, means (design 12). Written by `PUT /v1/runtime/bindings/{name}`.
 * `host` is a lower-case A-label or IP literal, with `:port` where the port is not the scheme's own.
 */
export interface Binding {
  /** For `mcp` also the server's name in tool ids: `mcp.<name>.<tool>`. */
  readonly name: string;
  /** Tool id of a bound `http` call; MCP tool ids come from the binding's name. */
  readonly tool?: string | undefined;
  readonly protocol: 'http' | 'mcp' | 'passthrough';
  readonly host: string;
  readonly method?: string | undefined;
  /** Path template, for example `/v1/payments/{payment_id}`; for `mcp` the endpoint's path. */
  readonly path?: string | undefined;
  readonly body?: 'json' | 'form' | 'none' | undefined;
  /** Resource template, for example `payment:{payment_id}`; names are args. */
  readonly resource?: string | undefined;
  /** Request headers of the agent that go upstream besides the standard ones. */
  readonly headers?: readonly string[] | undefined;
  readonly upgrade?: boolean | undefined;
  /** For `mcp`: lists of resources, templates and prompts are actions that policy decides. */
  readonly list_actions?: boolean | undefined;
  readonly upstream?: BindingUpstream | undefined;
}

/** How a credential is put into a request. */
export interface CredentialInjection {
  readonly in: 'bearer' | 'header' | 'basic' | 'query';
  /** Header or query parameter name, for `header` and `query`. */
  readonly name?: string | undefined;
  /** Text around the secret, with `{secret}` in its place; for `basic` the user name goes before a colon. */
  readonly format?: string | undefined;
}

/** A credential as a sidecar holds it, in memory only. */
export interface HeldCredential {
  readonly id: string;
  readonly version: number;
  readonly secret: string;
  readonly inject: CredentialInjection;
  readonly bind: { readonly tools: readonly string[]; readonly hosts: readonly string[] };
}
