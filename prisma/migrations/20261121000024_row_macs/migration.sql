ALTER TABLE "tenant" ADD COLUMN "mac" TEXT;
ALTER TABLE "api_key" ADD COLUMN "mac" TEXT;
ALTER TABLE "directory_user" ADD COLUMN "mac" TEXT;
ALTER TABLE "agent" ADD COLUMN "mac" TEXT;
ALTER TABLE "service_account" ADD COLUMN "mac" TEXT;
ALTER TABLE "tool" ADD COLUMN "mac" TEXT;
ALTER TABLE "approval_vote" ADD COLUMN "mac" TEXT;
ALTER TABLE "kill_switch" ADD COLUMN "mac" TEXT;
ALTER TABLE "sidecar" ADD COLUMN "mac" TEXT;
ALTER TABLE "enrolment_token" ADD COLUMN "mac" TEXT;
ALTER TABLE "signing_key" ADD COLUMN "mac" TEXT;

CREATE TABLE "integrity_baseline" (
    "id" INTEGER NOT NULL,
    "signed_at" TIMESTAMPTZ(3) NOT NULL,
    "mac" TEXT NOT NULL,

    CONSTRAINT "integrity_baseline_pkey" PRIMARY KEY ("id")
);
ALTER TABLE "integrity_baseline" ADD CONSTRAINT "integrity_baseline_one" CHECK ("id" = 1);
