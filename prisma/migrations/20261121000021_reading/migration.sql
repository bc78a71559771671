-- The audit trail is what is left when the traffic of agents is put aside: an index of its own, for it
-- is one row in thousands. Its condition is that of control-plane/evidence/audit/trail.ts, word for word.
CREATE INDEX "evidence_row_audit" ON "evidence_row" ("tenant_id", "position")
  WHERE type NOT IN ('decision', 'execution.result', 'passport.issued', 'passport.renewed')
    AND type NOT LIKE 'custom.%';
