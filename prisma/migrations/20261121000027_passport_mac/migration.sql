ALTER TABLE "passport" ADD COLUMN "mac" TEXT;
ALTER TABLE "vault_key" ADD COLUMN "mac" TEXT;
