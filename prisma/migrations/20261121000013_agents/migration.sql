-- AlterTable
ALTER TABLE "agent" ADD COLUMN "disabled_by" TEXT,
ADD COLUMN "disabled_reason" TEXT;

-- AlterTable
ALTER TABLE "passport" ADD COLUMN "renewed_from" TEXT,
ADD COLUMN "root_issued_at" TIMESTAMPTZ(3),
ADD COLUMN "root_jti" TEXT;

-- CreateIndex
CREATE INDEX "passport_tenant_id_root_jti_idx" ON "passport"("tenant_id", "root_jti");

-- CreateIndex
CREATE UNIQUE INDEX "passport_tenant_id_renewed_from_key" ON "passport"("tenant_id", "renewed_from");
