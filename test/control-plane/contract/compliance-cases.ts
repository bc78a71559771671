import { type Cases, succeeds, yields } from './case.ts';

export const complianceCases: Cases = {
  'GET /v1/compliance': [
    succeeds(200, (ask) => ask()),
    yields(503, 'report.signing_unavailable', async (ask, stage) => {
      await stage.sealSigningKeyElsewhere('report');
      return ask();
    }),
  ],
};
