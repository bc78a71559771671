ALTER TABLE "event_outbox" ADD COLUMN "mac" TEXT;

CREATE TABLE "binding_removal" (
    "tenant_id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "event_id" TEXT NOT NULL,
    "removed_at" TIMESTAMPTZ(3) NOT NULL,
    "mac" TEXT,

    CONSTRAINT "binding_removal_pkey" PRIMARY KEY ("tenant_id", "name")
);

ALTER TABLE "integrity_baseline" DROP CONSTRAINT "integrity_baseline_one";
ALTER TABLE "integrity_baseline" ADD CONSTRAINT "integrity_baseline_known" CHECK ("id" IN (1, 2));
