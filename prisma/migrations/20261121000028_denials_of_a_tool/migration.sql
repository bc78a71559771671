-- The denials of a tool or of an agent: what another decision has is passed over within the index.
CREATE INDEX "evidence_row_tenant_id_agent_id_position_decision_idx" ON "evidence_row"("tenant_id", "agent_id", "position", "decision");
CREATE INDEX "evidence_row_tenant_id_tool_position_decision_idx" ON "evidence_row"("tenant_id", "tool", "position", "decision");
DROP INDEX "evidence_row_tenant_id_agent_id_position_idx";
DROP INDEX "evidence_row_tenant_id_tool_position_idx";
