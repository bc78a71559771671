/**
 * The values that containers and pods of injected namespaces may have. The chart writes these lists
 * into its admission policies.
 */
export const allowed = {
  /** The volume types of the restricted Pod Security Standard, and read-only OCI images. */
  volumeSources: [
    'configMap',
    'csi',
    'downwardAPI',
    'emptyDir',
    'ephemeral',
    'image',
    'persistentVolumeClaim',
    'projected',
    'secret',
  ],
  /** Capabilities that concern only the container's own files, processes and ports. */
  capabilities: [
    'CHOWN',
    'DAC_OVERRIDE',
    'FOWNER',
    'FSETID',
    'KILL',
    'NET_BIND_SERVICE',
    'SYS_CHROOT',
  ],
  /** The sysctls of the baseline Pod Security Standard. */
  sysctls: [
    'kernel.shm_rmid_forced',
    'net.ipv4.ip_local_port_range',
    'net.ipv4.ip_local_reserved_ports',
    'net.ipv4.ip_unprivileged_port_start',
    'net.ipv4.ping_group_range',
    'net.ipv4.tcp_fin_timeout',
    'net.ipv4.tcp_keepalive_intvl',
    'net.ipv4.tcp_keepalive_probes',
    'net.ipv4.tcp_keepalive_time',
    'net.ipv4.tcp_syncookies',
  ],
  /** The SELinux types of the baseline Pod Security Standard. */
  seLinuxTypes: ['', 'container_engine_t', 'container_init_t', 'container_kvm_t', 'container_t'],
} as const satisfies Record<string, readonly string[]>;

export function isAllowed(kind: keyof typeof allowed, value: string): boolean {
  const values: readonly string[] = allowed[kind];
  return values.includes(value);
}
