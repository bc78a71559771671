import type { Injection } from '../../../injector/pod/injection.ts';

/**
 * The injector's configuration, as the chart renders it for
 * charts/sallyport/ci/external-values.yaml.
 */
export const injection: Injection = {
  image: 'registry.example/sallyport:0.1.0',
  imagePullPolicy: 'IfNotPresent',
  uid: 1337,
  transparentPort: 15_001,
  dnsPort: 15_053,
  audience: 'sallyport',
  controlPlaneUrl: 'http://sallyport.gateway.svc:8080',
  redis: { secretName: 'sallyport-redis', secretKey: 'redis-url' },
  holdTimeMs: 4_000,
  resources: { requests: { cpu: '50m', memory: '128Mi' }, limits: { memory: '512Mi' } },
  settings: {},
};
