-- CreateTable
CREATE TABLE "usage_minute" (
    "tenant_id" TEXT NOT NULL,
    "agent_id" TEXT NOT NULL,
    "tool" TEXT NOT NULL,
    "minute" INTEGER NOT NULL,
    "source" TEXT NOT NULL,
    "path" TEXT NOT NULL,
    "amount" DOUBLE PRECISION NOT NULL,
    "position" BIGINT NOT NULL,

    CONSTRAINT "usage_minute_pkey" PRIMARY KEY ("tenant_id","agent_id","tool","minute","source","path")
);

-- CreateIndex
CREATE INDEX "usage_minute_tenant_id_agent_id_position_idx" ON "usage_minute"("tenant_id", "agent_id", "position");

-- CreateIndex
CREATE INDEX "usage_minute_minute_idx" ON "usage_minute"("minute");

-- What counts as less than nothing would give a budget back.
ALTER TABLE "usage_minute" ADD CONSTRAINT "usage_minute_amount" CHECK (amount >= 0);
