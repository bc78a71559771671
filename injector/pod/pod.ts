/** The parts of a pod that injection and guard read. The API server has validated the rest. */
export interface Pod {
  readonly metadata?: Metadata;
  readonly spec: PodSpec;
  readonly [other: string]: unknown;
}

interface Metadata {
  readonly labels?: Texts;
  readonly annotations?: Texts;
  readonly [other: string]: unknown;
}

export type Texts = Readonly<Record<string, string>>;

export interface PodSpec {
  readonly containers: readonly Container[];
  readonly initContainers?: readonly Container[];
  readonly ephemeralContainers?: readonly Container[];
  readonly volumes?: readonly Volume[];
  readonly securityContext?: PodSecurityContext;
  readonly hostNetwork?: boolean;
  readonly hostPID?: boolean;
  readonly hostIPC?: boolean;
  readonly shareProcessNamespace?: boolean;
  readonly dnsPolicy?: string;
  readonly dnsConfig?: {
    readonly nameservers?: readonly string[];
    readonly searches?: readonly string[];
  };
  readonly hostAliases?: readonly unknown[];
  readonly os?: { readonly name?: string };
  readonly [other: string]: unknown;
}

export interface Container {
  readonly name: string;
  readonly image?: string;
  readonly env?: readonly EnvironmentVariable[];
  readonly envFrom?: readonly { readonly secretRef?: { readonly name?: string } }[];
  readonly volumeMounts?: readonly VolumeMount[];
  readonly securityContext?: SecurityContext;
  readonly lifecycle?: { readonly postStart?: Handler; readonly preStop?: Handler };
  readonly livenessProbe?: Handler;
  readonly readinessProbe?: Handler;
  readonly startupProbe?: Handler;
  /** Set for an ephemeral container: the container whose processes it can see. */
  readonly targetContainerName?: string;
  readonly [other: string]: unknown;
}

interface Handler {
  readonly httpGet?: { readonly host?: string; readonly [other: string]: unknown };
  readonly tcpSocket?: { readonly host?: string };
  readonly [other: string]: unknown;
}

interface EnvironmentVariable {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: {
    readonly secretKeyRef?: { readonly name?: string; readonly key?: string };
    readonly [other: string]: unknown;
  };
}

export interface VolumeMount {
  readonly name: string;
  readonly mountPath: string;
  readonly readOnly?: boolean;
}

export interface Volume {
  readonly name: string;
  readonly secret?: { readonly secretName?: string };
  readonly projected?: {
    readonly sources?: readonly ProjectedSource[];
    readonly defaultMode?: number;
  };
  readonly [source: string]: unknown;
}

interface ProjectedSource {
  readonly secret?: { readonly name?: string };
  readonly serviceAccountToken?: {
    readonly audience?: string;
    readonly [other: string]: unknown;
  };
}

interface Profile {
  readonly type?: string;
}

interface CommonSecurityContext {
  readonly runAsUser?: number;
  readonly runAsGroup?: number;
  readonly seccompProfile?: Profile;
  readonly appArmorProfile?: Profile;
  readonly seLinuxOptions?: Profile;
  readonly windowsOptions?: { readonly hostProcess?: boolean };
  readonly [other: string]: unknown;
}

export interface PodSecurityContext extends CommonSecurityContext {
  readonly fsGroup?: number;
  readonly supplementalGroups?: readonly number[];
  readonly sysctls?: readonly { readonly name: string }[];
}

interface SecurityContext extends CommonSecurityContext {
  readonly privileged?: boolean;
  readonly allowPrivilegeEscalation?: boolean;
  readonly procMount?: string;
  readonly capabilities?: { readonly add?: readonly string[]; readonly drop?: readonly string[] };
}
