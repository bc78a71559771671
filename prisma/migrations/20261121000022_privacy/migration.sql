-- AlterTable
ALTER TABLE "evidence_salt" ADD COLUMN     "arguments" TEXT,
ADD COLUMN     "erased_at" TIMESTAMPTZ(3),
ADD COLUMN     "user_id" TEXT;

-- CreateTable
CREATE TABLE "evidence_setting" (
    "tenant_id" TEXT NOT NULL,
    "arguments" TEXT NOT NULL DEFAULT 'digest',
    "sensitive_fields" TEXT[],
    "updated_by" TEXT NOT NULL,
    "updated_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "evidence_setting_pkey" PRIMARY KEY ("tenant_id")
);

-- Whose calls the salts of before belong to. `json` and not `jsonb`: a text with an escaped NUL is
-- in order as the former.
UPDATE "evidence_salt" AS salt
   SET "user_id" = coalesce(row.event -> 'data' ->> 'acted_for', row.event ->> 'user_id')
  FROM (SELECT "tenant_id", "event_id", "canonical"::json AS event FROM "evidence_row") AS row
 WHERE row."tenant_id" = salt."tenant_id" AND row."event_id" = salt."event_id";

-- CreateIndex
CREATE INDEX "evidence_salt_tenant_id_user_id_idx" ON "evidence_salt"("tenant_id", "user_id");

ALTER TABLE "evidence_setting"
  ADD CONSTRAINT "evidence_setting_arguments_check" CHECK (arguments IN ('digest', 'redacted'));
-- What was erased is empty and stays so: whoever sends the same record again brings nothing back.
ALTER TABLE "evidence_salt"
  ADD CONSTRAINT "evidence_salt_erased_check"
    CHECK (erased_at IS NULL OR (sealed = '' AND arguments IS NULL));
