/** The Redis keys of one tenant. */
export interface TenantKeys {
  readonly stream: string;
  readonly index: string;
  readonly epoch: string;
  /** Prefix of every section's key. */
  readonly sections: string;
  section(name: string): string;
  claim(key: string): string;
  counter(key: string): string;
}

/**
 * Returns the Redis keys of a tenant. All keys begin with `sallyport:{<tenant>}:`, so that a Redis
 * ACL can confine a user to a tenant; the braces put all keys of a tenant on one cluster slot. The
 * tenant is percent-encoded, so that no tenant id can form another tenant's prefix.
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

/** A topic of one tenant, for `notify` and `subscribe`; it has the tenant's key prefix. */
export function tenantTopic(tenantId: string, topic: string): string {
  return `{${encodeURIComponent(tenantId)}}:${topic}`;
}

/** The Redis channel of a topic. */
export function channelOf(topic: string): string {
  return `sallyport:${topic}`;
}
