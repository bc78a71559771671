CREATE TABLE "bus_claim" (
    "tenant_id" TEXT NOT NULL,
    "key" TEXT NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "bus_claim_pkey" PRIMARY KEY ("tenant_id", "key")
);
CREATE INDEX "bus_claim_expires_at_idx" ON "bus_claim"("expires_at");
