-- The role of whoever disabled the agent: a lower one does not enable it again.
ALTER TABLE "agent" ADD COLUMN "disabled_by_role" TEXT;
