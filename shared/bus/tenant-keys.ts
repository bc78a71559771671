/** The Redis keys of one tenant. */
export interface TenantKeys {
  readonly stream: string;
  readonly index: string;
  readonly epoch: string;
  /** What every section's key begins with. */
  readonly sections: string;
  section(name: string): string;
  claim(key: string): string;
  counter(key: string): string;
}

/**
 * All begin with `sallyport:{<tenant>}:`, so that a Redis ACL user can be confined to a tenant,
 * and the braces put them on one cluster slot. The tenant is percent-encoded: none can reach
 * into another's keys by its name.
 */
export function tenantKeys(tenantId: string): TenantKeys {
  const prefix = `sallyport:{${encodeURIComponent(tenantId)}}`;
  const sections = `${prefix}:section:`;
  return {
    stream: `${prefix}:changes`,
    index: `${prefix}:sections`,
    epoch: `${prefix}:epoch`,
    sections,
    section: (name) => `${sections}${name}`,
    claim: (key) => `${prefix}:claim:${key}`,
    counter: (key) => `${prefix}:count:${key}`,
  };
}

/** A topic of one tenant, for `notify` and `subscribe`: within the same prefix as its keys. */
export function tenantTopic(tenantId: string, topic: string): string {
  return `{${encodeURIComponent(tenantId)}}:${topic}`;
}

/** The Redis channel of a topic. */
export function channelOf(topic: string): string {
  return `sallyport:${topic}`;
}
