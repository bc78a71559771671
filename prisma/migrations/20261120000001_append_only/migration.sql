-- What the Prisma schema cannot say: rows that nobody changes, uniqueness among some rows only,
-- and values that must never be stored.

-- Evidence is written once. A role that owns the tables can drop these triggers, so the service
-- runs under another role than the one that migrates (see the README of this folder).
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% on % refused: evidence is append-only', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER evidence_row_append_only BEFORE UPDATE OR DELETE ON "evidence_row"
  FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER evidence_row_no_truncate BEFORE TRUNCATE ON "evidence_row"
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER evidence_batch_append_only BEFORE UPDATE OR DELETE ON "evidence_batch"
  FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER evidence_batch_no_truncate BEFORE TRUNCATE ON "evidence_batch"
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER evidence_checkpoint_append_only BEFORE UPDATE OR DELETE ON "evidence_checkpoint"
  FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER evidence_checkpoint_no_truncate BEFORE TRUNCATE ON "evidence_checkpoint"
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The head only moves forward; no sealing statement does otherwise.
CREATE FUNCTION refuse_rewind() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% on % refused: a ledger only grows', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER evidence_head_forward BEFORE UPDATE ON "evidence_head"
  FOR EACH ROW WHEN (NEW.position <= OLD.position OR NEW.tenant_id <> OLD.tenant_id)
  EXECUTE FUNCTION refuse_rewind();
CREATE TRIGGER evidence_head_kept BEFORE DELETE ON "evidence_head"
  FOR EACH ROW EXECUTE FUNCTION refuse_rewind();
CREATE TRIGGER evidence_head_no_truncate BEFORE TRUNCATE ON "evidence_head"
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewind();
CREATE TRIGGER evidence_chain_forward BEFORE UPDATE ON "evidence_chain"
  FOR EACH ROW WHEN (NEW.seq <= OLD.seq OR NEW.chain_id <> OLD.chain_id OR NEW.tenant_id <> OLD.tenant_id)
  EXECUTE FUNCTION refuse_rewind();
CREATE TRIGGER evidence_chain_kept BEFORE DELETE ON "evidence_chain"
  FOR EACH ROW EXECUTE FUNCTION refuse_rewind();
CREATE TRIGGER evidence_chain_no_truncate BEFORE TRUNCATE ON "evidence_chain"
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewind();

-- Two rows that every batch updates: room on their pages keeps those updates off the indexes.
ALTER TABLE "evidence_head" SET (fillfactor = 50);
ALTER TABLE "evidence_chain" SET (fillfactor = 50);

ALTER TABLE "evidence_row"
  ADD CONSTRAINT "evidence_row_position_check" CHECK (position >= 1),
  ADD CONSTRAINT "evidence_row_seq_check" CHECK (seq >= 1);

-- At most one of each, whoever races.
CREATE UNIQUE INDEX "policy_one_published" ON "policy" ("tenant_id", "definition_id")
  WHERE lifecycle = 'published';
CREATE UNIQUE INDEX "approval_one_open" ON "approval" ("tenant_id", "agent_id", "action_digest")
  WHERE status IN
    ('pending', 'context_requested', 'reauth_required', 'tool_reapproval_required', 'escalated');
CREATE UNIQUE INDEX "signing_key_one_active" ON "signing_key" ("tenant_id", "purpose")
  WHERE state = 'active';

-- Words on which decisions hang: an unknown one must not be stored, for it would be read as
-- something that permits or is overlooked.
ALTER TABLE "tenant"
  ADD CONSTRAINT "tenant_mode_check" CHECK (mode IN ('monitor', 'warn', 'enforce', 'strict'));
ALTER TABLE "api_key"
  ADD CONSTRAINT "api_key_role_check"
    CHECK (role IN ('owner', 'admin', 'developer', 'approver', 'auditor', 'agent', 'gateway')),
  ADD CONSTRAINT "api_key_scope_check" CHECK (scope IN ('tenant', 'gateway'));
ALTER TABLE "passport"
  ADD CONSTRAINT "passport_kind_check" CHECK (kind IN ('agent', 'lease', 'grant')),
  ADD CONSTRAINT "passport_expires_at_check" CHECK (expires_at > issued_at);
ALTER TABLE "policy"
  ADD CONSTRAINT "policy_lifecycle_check" CHECK (lifecycle IN ('draft', 'published', 'archived')),
  ADD CONSTRAINT "policy_version_check" CHECK (version >= 1);
ALTER TABLE "tool"
  ADD CONSTRAINT "tool_approval_status_check"
    CHECK (approval_status IN ('approved', 'pending_approval', 'reapproval_required', 'rejected'));
ALTER TABLE "approval"
  ADD CONSTRAINT "approval_kind_check" CHECK (kind IN ('action', 'tool')),
  ADD CONSTRAINT "approval_status_check"
    CHECK (status IN ('pending', 'context_requested', 'reauth_required', 'tool_reapproval_required',
                      'escalated', 'approved', 'denied', 'modified', 'expired')),
  ADD CONSTRAINT "approval_quorum_check" CHECK (quorum >= 1),
  -- A grant is spent only where one was given.
  ADD CONSTRAINT "approval_used_at_check"
    CHECK (used_at IS NULL OR status IN ('approved', 'modified'));
ALTER TABLE "kill_switch"
  ADD CONSTRAINT "kill_switch_kind_check"
    CHECK ((kind = 'block_tool' AND tool IS NOT NULL)
        OR (kind = 'block_agent' AND agent_id IS NOT NULL)
        OR (kind = 'force_mode' AND mode IN ('monitor', 'warn', 'enforce', 'strict')));
ALTER TABLE "enrolment_token"
  ADD CONSTRAINT "enrolment_token_uses_left_check" CHECK (uses_left >= 0);
ALTER TABLE "signing_key"
  ADD CONSTRAINT "signing_key_alg_check" CHECK (alg IN ('EdDSA', 'ES256')),
  ADD CONSTRAINT "signing_key_state_check" CHECK (state IN ('active', 'retired'));
