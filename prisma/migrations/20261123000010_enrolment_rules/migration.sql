CREATE TABLE "enrolment_rule" (
    "tenant_id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "issuer" TEXT NOT NULL,
    "audience" TEXT NOT NULL,
    "namespace" TEXT NOT NULL,
    "service_account" TEXT NOT NULL,
    "agent_id" TEXT NOT NULL,
    "user_id" TEXT NOT NULL,
    "environment" TEXT NOT NULL,
    "written_by" TEXT NOT NULL,
    "writer_role" TEXT NOT NULL,
    "written_at" TIMESTAMPTZ(3) NOT NULL,
    "event_id" TEXT NOT NULL,
    "mac" TEXT,

    CONSTRAINT "enrolment_rule_pkey" PRIMARY KEY ("tenant_id", "name")
);
CREATE INDEX "enrolment_rule_tenant_id_agent_id_idx" ON "enrolment_rule"("tenant_id", "agent_id");
CREATE UNIQUE INDEX "enrolment_rule_tenant_id_issuer_namespace_service_account_key" ON "enrolment_rule"("tenant_id", "issuer", "namespace", "service_account");

ALTER TABLE "sidecar" ADD COLUMN "revoked_for" TEXT;
ALTER TABLE "sidecar" ADD COLUMN "rule_name" TEXT;
ALTER TABLE "sidecar" ADD COLUMN "issuer" TEXT;
ALTER TABLE "sidecar" ADD COLUMN "namespace" TEXT;
ALTER TABLE "sidecar" ADD COLUMN "service_account" TEXT;
ALTER TABLE "sidecar" ADD COLUMN "pod_name" TEXT;
ALTER TABLE "sidecar" ADD COLUMN "pod_uid" TEXT;
CREATE INDEX "sidecar_tenant_id_rule_name_idx" ON "sidecar"("tenant_id", "rule_name");
CREATE INDEX "sidecar_tenant_id_issuer_pod_uid_idx" ON "sidecar"("tenant_id", "issuer", "pod_uid");
-- A pod has one sidecar.
CREATE UNIQUE INDEX "sidecar_one_per_pod" ON "sidecar" ("tenant_id", "issuer", "pod_uid")
  WHERE pod_uid IS NOT NULL AND revoked_at IS NULL;
ALTER TABLE "sidecar" ADD CONSTRAINT "sidecar_revoked_for_known"
  CHECK ("revoked_for" IN ('operator', 'replaced', 'rule', 'unseen'));
