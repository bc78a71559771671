-- Who asked, who agreed, and what the agent is told of it.
ALTER TABLE "approval" ADD COLUMN "requested_by" TEXT[] DEFAULT ARRAY[]::TEXT[];
ALTER TABLE "approval" ADD COLUMN "decider_role" TEXT;
ALTER TABLE "approval" ADD COLUMN "decider_count" INTEGER;
ALTER TABLE "approval" ADD COLUMN "agent_comment" TEXT;
-- A key counts as the persons who led to it: a person cannot be two by making a key.
ALTER TABLE "api_key" ADD COLUMN "minted_by" TEXT[] DEFAULT ARRAY[]::TEXT[];
ALTER TABLE "approval_vote" ADD COLUMN "minted_by" TEXT[] DEFAULT ARRAY[]::TEXT[];
-- Only some passports prove that their user was there.
ALTER TABLE "passport" ADD COLUMN "attested_by" TEXT;
