/** The upstream to which `/v1/actions/execute` forwards a bound tool. */
export interface BindingUpstream {
  readonly url: string;
  readonly method: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/**
 * Maps a host, or calls to that host, to tools. Set by `PUT /v1/runtime/bindings/{name}`. `host` is
 * a lower-case A-label or IP literal, with `:port` unless the port is the scheme's default.
 */
export interface Binding {
  /** For `mcp`, also the server's name in tool ids: `mcp.<name>.<tool>`. */
  readonly name: string;
  /** Tool id of a bound `http` call; MCP tool ids come from the binding's name. */
  readonly tool?: string | undefined;
  readonly protocol: 'http' | 'mcp' | 'passthrough';
  readonly host: string;
  readonly method?: string | undefined;
  /** Path template, for example `/v1/payments/{payment_id}`; for `mcp` the endpoint's path. */
  readonly path?: string | undefined;
  readonly body?: 'json' | 'form' | 'none' | undefined;
  /** Resource template, for example `payment:{payment_id}`; the names in braces are arguments. */
  readonly resource?: string | undefined;
  /** Names of additional request headers that are forwarded from the agent. */
  readonly headers?: readonly string[] | undefined;
  readonly upgrade?: boolean | undefined;
  /**
   * For `mcp`: if true, requests that list resources, templates or prompts count as actions, so
   * that policies decide them.
   */
  readonly list_actions?: boolean | undefined;
  readonly upstream?: BindingUpstream | undefined;
}

/** How a credential is added to a request. */
export interface CredentialInjection {
  readonly in: 'bearer' | 'header' | 'basic' | 'query';
  /** Header or query parameter name, for `header` and `query`. */
  readonly name?: string | undefined;
  /**
   * Text with the placeholder `{secret}`, which is replaced by the secret. For `basic`, the text
   * begins with the user name and a colon.
   */
  readonly format?: string | undefined;
}

/** A credential in a sidecar's memory; it is never written to disk. */
export interface HeldCredential {
  readonly id: string;
  readonly version: number;
  readonly secret: string;
  readonly inject: CredentialInjection;
  readonly bind: { readonly tools: readonly string[]; readonly hosts: readonly string[] };
}
