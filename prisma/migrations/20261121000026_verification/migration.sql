-- CreateTable
CREATE TABLE "evidence_verification" (
    "tenant_id" TEXT NOT NULL,
    "position" BIGINT NOT NULL,
    "frontier" TEXT[],
    "latest_at" TIMESTAMPTZ(3),
    "verified_at" TIMESTAMPTZ(3) NOT NULL,
    "whole_at" TIMESTAMPTZ(3) NOT NULL,
    "problem" JSONB,
    "lost_position" BIGINT NOT NULL DEFAULT 0,
    "accepted_position" BIGINT NOT NULL DEFAULT 0,
    "mac" TEXT NOT NULL,

    CONSTRAINT "evidence_verification_pkey" PRIMARY KEY ("tenant_id")
);
