import { injectPod } from '../../injector/pod/inject.ts';
import type { Container, Pod } from '../../injector/pod/pod.ts';
import type { AdmissionCode } from '../../shared/errors/admission-error-kinds.ts';
import { injection } from '../support/injector/injection.ts';
import { container, pod } from './pod-case.ts';
import type { Request } from './review.ts';

/** A request about an existing or manipulated pod, and the codes of its refusal. */
interface ChangeCase {
  readonly title: string;
  readonly request: Request;
  readonly refused: readonly AdmissionCode[];
}

const injected = injectPod(
  pod({ labels: { app: 'agent' }, annotations: { 'sallyport.io/agent': '7' } }),
  injection,
);
/** A pod that was created before its namespace was labelled, so it has no sidecar. */
const uninjected = pod();

type Change = (one: Pod) => Pod;

const withMetadata =
  (metadata: object): Change =>
  (one) => ({ ...one, metadata: { ...one.metadata, ...metadata } });

const withInit =
  (index: number, change: (one: Container) => Container): Change =>
  (one) => ({
    ...one,
    spec: {
      ...one.spec,
      initContainers: (one.spec.initContainers ?? []).map((each, at) =>
        at === index ? change(each) : each,
      ),
    },
  });

function update(title: string, change: Change, refused: readonly AdmissionCode[]): ChangeCase {
  const request = { operation: 'UPDATE', object: change(injected), oldObject: injected } as const;
  return { title, request, refused };
}

function manipulated(title: string, change: Change, refused: readonly AdmissionCode[]): ChangeCase {
  return { title, request: { operation: 'CREATE', object: change(injected) }, refused };
}

function debug(title: string, fields: object, refused: readonly AdmissionCode[], base = injected) {
  const ephemeralContainers = [container({ name: 'debugger', ...fields })];
  const object = { ...base, spec: { ...base.spec, ephemeralContainers } };
  const subResource = 'ephemeralcontainers';
  return {
    title,
    request: { operation: 'UPDATE', subResource, object, oldObject: base },
    refused,
  } as const;
}

function connect(
  title: string,
  subResource: string,
  name: string,
  refused: readonly AdmissionCode[],
) {
  const object = { kind: 'PodExecOptions', apiVersion: 'v1', container: name };
  return { title, request: { operation: 'CONNECT', subResource, object }, refused } as const;
}

const updates: readonly ChangeCase[] = [
  update('an update of other labels', withMetadata({ labels: { app: 'b' } }), []),
  update('a removed annotation', withMetadata({ annotations: {} }), [
    'admission.injection_changed',
  ]),
  update('a changed annotation', withMetadata({ annotations: { 'sallyport.io/agent': '8' } }), [
    'admission.injection_changed',
  ]),
  update(
    'a label that exempts an existing pod',
    withMetadata({ labels: { app: 'agent', 'sallyport.io/inject': 'false' } }),
    ['admission.injection_changed'],
  ),
  update(
    'a new image of the agent',
    (one) => ({ ...one, spec: { ...one.spec, containers: [{ ...container(), image: 'b' }] } }),
    [],
  ),
  update(
    'a new image of the sidecar',
    withInit(1, (one) => ({ ...one, image: 'evil' })),
    ['admission.sidecar_changed'],
  ),
  update(
    'a new image of the network container',
    withInit(0, (one) => ({ ...one, image: 'e' })),
    ['admission.sidecar_changed'],
  ),
  {
    title: 'an update of a pod without a sidecar',
    request: { operation: 'UPDATE', object: uninjected, oldObject: uninjected },
    refused: [],
  },
];

const manipulations: readonly ChangeCase[] = [
  manipulated('an injected pod', (one) => one, []),
  manipulated('a pod that was not injected', () => pod(), ['admission.not_injected']),
  manipulated(
    'another image of the sidecar',
    withInit(1, (one) => ({ ...one, image: 'evil' })),
    ['admission.not_injected'],
  ),
  manipulated(
    'a command for the sidecar',
    withInit(1, (one) => ({ ...one, command: ['sh'] })),
    ['admission.not_injected'],
  ),
  manipulated(
    'other arguments of the redirect',
    withInit(0, (one) => ({ ...one, args: ['x'] })),
    ['admission.not_injected'],
  ),
  manipulated(
    'a variable that loads code into the sidecar',
    withInit(1, (one) => ({
      ...one,
      env: [...(one.env ?? []), { name: 'NODE_OPTIONS', value: '--require /app/x.js' }],
    })),
    ['admission.not_injected'],
  ),
  manipulated(
    'a volume over the program of the sidecar',
    withInit(1, (one) => ({
      ...one,
      volumeMounts: [...(one.volumeMounts ?? []), { name: 'work', mountPath: '/app' }],
    })),
    ['admission.not_injected'],
  ),
  manipulated(
    'a sidecar that may gain privileges',
    withInit(1, (one) => ({
      ...one,
      securityContext: { ...one.securityContext, allowPrivilegeEscalation: true },
    })),
    ['admission.not_injected'],
  ),
  manipulated(
    'a sidecar without a restriction',
    withInit(1, ({ securityContext: { capabilities, ...rest } = {}, ...one }) => ({
      ...one,
      securityContext: rest,
    })),
    ['admission.not_injected'],
  ),
  manipulated(
    "the sidecar's volume on a claim",
    (one) => ({
      ...one,
      spec: {
        ...one.spec,
        volumes: (one.spec.volumes ?? []).map((volume) =>
          volume.name === 'sallyport-data'
            ? { name: volume.name, persistentVolumeClaim: { claimName: 'shared' } }
            : volume,
        ),
      },
    }),
    ['admission.not_injected'],
  ),
  manipulated(
    'a container that starts before the redirect',
    (one) => ({
      ...one,
      spec: {
        ...one.spec,
        initContainers: [container({ name: 'early' }), ...(one.spec.initContainers ?? [])],
      },
    }),
    ['admission.not_injected'],
  ),
  manipulated(
    'fields and mounts that Kubernetes adds to the sidecar',
    withInit(1, (one) => ({
      ...one,
      terminationMessagePath: '/dev/termination-log',
      securityContext: { ...one.securityContext, procMount: 'Default' },
      volumeMounts: [
        ...(one.volumeMounts ?? []),
        {
          name: 'kube-api-access-abcde',
          mountPath: '/var/run/secrets/kubernetes.io/serviceaccount',
          readOnly: true,
        },
      ],
    })),
    [],
  ),
];

const debugging: readonly ChangeCase[] = [
  debug('a confined ephemeral container', {}, []),
  debug("an ephemeral container with the sidecar's uid", { securityContext: { runAsUser: 1337 } }, [
    'admission.sidecar_user',
    'admission.privilege_escalation',
    'admission.capabilities',
  ]),
  debug(
    'an ephemeral container that sees the processes of the sidecar',
    { targetContainerName: 'sallyport-sidecar' },
    ['admission.sidecar_processes'],
  ),
  debug(
    "an ephemeral container that mounts the sidecar's token",
    { volumeMounts: [{ name: 'sallyport-token', mountPath: '/t' }] },
    ['admission.sidecar_volume'],
  ),
  debug(
    'any ephemeral container in a pod without a sidecar',
    { securityContext: {} },
    [],
    uninjected,
  ),
];

const commands: readonly ChangeCase[] = [
  connect('a command in the agent', 'exec', 'agent', []),
  connect('a command in the default container', 'exec', '', []),
  connect('a command in the sidecar', 'exec', 'sallyport-sidecar', ['admission.sidecar_exec']),
  connect('an attachment to the sidecar', 'attach', 'sallyport-sidecar', [
    'admission.sidecar_exec',
  ]),
];

export const changeCases: readonly ChangeCase[] = [
  ...updates,
  ...manipulations,
  ...debugging,
  ...commands,
];
