-- CreateTable
CREATE TABLE "vault_key" (
    "id" TEXT NOT NULL,
    "provider" TEXT NOT NULL,
    "wrapped" TEXT,
    "state" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "activated_at" TIMESTAMPTZ(3),
    "retired_at" TIMESTAMPTZ(3),

    CONSTRAINT "vault_key_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "vault_root" (
    "id" INTEGER NOT NULL DEFAULT 1,
    "sealed" TEXT,

    CONSTRAINT "vault_root_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "vault_holder" (
    "id" TEXT NOT NULL,
    "keys" TEXT[],
    "active" TEXT NOT NULL,
    "seen_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "vault_holder_pkey" PRIMARY KEY ("id")
);

-- What the schema cannot say.
ALTER TABLE "vault_key" ADD CONSTRAINT "vault_key_state_check"
  CHECK (state IN ('announced', 'active', 'retiring', 'retired'));
CREATE UNIQUE INDEX "vault_key_one_active" ON "vault_key" ("state") WHERE state = 'active';
ALTER TABLE "vault_root" ADD CONSTRAINT "vault_root_id_check" CHECK (id = 1);

-- Hashes that were made before there was a root are under the master key itself, so that here it
-- is the root. Only a migration can tell: later nobody can make an old installation of a new one.
INSERT INTO "vault_root" (id, sealed)
SELECT 1, NULL
 WHERE EXISTS (SELECT FROM signing_key) OR EXISTS (SELECT FROM api_key)
    OR EXISTS (SELECT FROM binding) OR EXISTS (SELECT FROM credential)
    OR EXISTS (SELECT FROM idempotency);
