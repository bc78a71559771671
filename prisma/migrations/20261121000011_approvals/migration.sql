-- AlterTable
ALTER TABLE "approval" ADD COLUMN     "grant_limits" JSONB,
ADD COLUMN     "grant_revoked_at" TIMESTAMPTZ(3),
ADD COLUMN     "grant_revoked_by" TEXT,
ADD COLUMN     "grant_scope" TEXT,
ADD COLUMN     "grant_uses" INTEGER NOT NULL DEFAULT 1,
ADD COLUMN     "uses_spent" INTEGER NOT NULL DEFAULT 0;

-- AlterTable
ALTER TABLE "delivery" ADD COLUMN     "dead_at" TIMESTAMPTZ(3),
ADD COLUMN     "last_status" INTEGER,
ADD COLUMN     "leased_until" TIMESTAMPTZ(3),
ADD COLUMN     "replays" INTEGER NOT NULL DEFAULT 0,
ADD COLUMN     "subject" TEXT NOT NULL DEFAULT '';

-- CreateIndex
CREATE INDEX "approval_tenant_id_agent_id_grant_scope_grant_expires_at_idx" ON "approval"("tenant_id", "agent_id", "grant_scope", "grant_expires_at");

-- CreateIndex
CREATE INDEX "delivery_status_next_attempt_at_idx" ON "delivery"("status", "next_attempt_at");

-- What the schema cannot say: no more uses than were granted, and no word that nobody reads.
ALTER TABLE "approval"
  ADD CONSTRAINT "approval_grant_scope_check" CHECK (grant_scope IN ('action', 'tool')),
  ADD CONSTRAINT "approval_uses_spent_check" CHECK (uses_spent BETWEEN 0 AND grant_uses),
  -- A standing grant is never one of critical risk.
  ADD CONSTRAINT "approval_grant_risk_check"
    CHECK (grant_scope IS NULL OR risk_tier IN ('low', 'medium', 'high'));
ALTER TABLE "delivery"
  ADD CONSTRAINT "delivery_status_check" CHECK (status IN ('pending', 'delivered', 'dead'));
