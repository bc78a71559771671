-- CreateTable
CREATE TABLE "tenant" (
    "id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "mode" TEXT NOT NULL DEFAULT 'enforce',
    "plan" TEXT NOT NULL DEFAULT 'enterprise',
    "approval_sla_seconds" INTEGER NOT NULL DEFAULT 3600,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "tenant_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "api_key" (
    "id" TEXT NOT NULL,
    "tenant_id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "hash" TEXT NOT NULL,
    "start" TEXT NOT NULL,
    "last4" TEXT NOT NULL,
    "role" TEXT NOT NULL,
    "scope" TEXT NOT NULL,
    "principal" TEXT NOT NULL,
    "agent_id" INTEGER,
    "expires_at" TIMESTAMPTZ(3),
    "revoked_at" TIMESTAMPTZ(3),
    "last_used_at" TIMESTAMPTZ(3),
    "created_by" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "api_key_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "directory_user" (
    "tenant_id" TEXT NOT NULL,
    "id" TEXT NOT NULL,
    "email" TEXT,
    "role" TEXT,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "directory_user_pkey" PRIMARY KEY ("tenant_id","id")
);

-- CreateTable
CREATE TABLE "idempotency" (
    "tenant_id" TEXT NOT NULL,
    "key_id" TEXT NOT NULL,
    "agent_id" TEXT NOT NULL,
    "operation" TEXT NOT NULL,
    "key" TEXT NOT NULL,
    "fingerprint" TEXT NOT NULL,
    "status" INTEGER,
    "body" TEXT,
    "owner" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "idempotency_pkey" PRIMARY KEY ("tenant_id","key_id","agent_id","operation","key")
);

-- CreateTable
CREATE TABLE "agent" (
    "id" SERIAL NOT NULL,
    "tenant_id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "kind" TEXT NOT NULL DEFAULT 'ai_developer',
    "goal" TEXT,
    "blast_radius" TEXT NOT NULL DEFAULT 'medium',
    "capabilities" TEXT[],
    "disabled_at" TIMESTAMPTZ(3),
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "agent_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "service_account" (
    "id" TEXT NOT NULL,
    "tenant_id" TEXT NOT NULL,
    "agent_id" INTEGER NOT NULL,
    "name" TEXT NOT NULL,
    "revoked_at" TIMESTAMPTZ(3),
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "service_account_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "passport" (
    "tenant_id" TEXT NOT NULL,
    "jti" TEXT NOT NULL,
    "kind" TEXT NOT NULL,
    "agent_id" TEXT NOT NULL,
    "user_id" TEXT NOT NULL,
    "audience" TEXT NOT NULL,
    "risk_tier" TEXT NOT NULL,
    "approval_hash" TEXT,
    "sidecar_id" TEXT,
    "issued_at" TIMESTAMPTZ(3) NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "passport_pkey" PRIMARY KEY ("tenant_id","jti")
);

-- CreateTable
CREATE TABLE "passport_revocation" (
    "tenant_id" TEXT NOT NULL,
    "jti" TEXT NOT NULL,
    "reason" TEXT,
    "revoked_by" TEXT NOT NULL,
    "revoked_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3),

    CONSTRAINT "passport_revocation_pkey" PRIMARY KEY ("tenant_id","jti")
);

-- CreateTable
CREATE TABLE "passport_use" (
    "tenant_id" TEXT NOT NULL,
    "jti" TEXT NOT NULL,
    "used_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "passport_use_pkey" PRIMARY KEY ("tenant_id","jti")
);

-- CreateTable
CREATE TABLE "policy" (
    "id" SERIAL NOT NULL,
    "tenant_id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "definition_id" TEXT NOT NULL,
    "version" INTEGER NOT NULL,
    "lifecycle" TEXT NOT NULL DEFAULT 'draft',
    "definition" TEXT NOT NULL,
    "policy_hash" TEXT NOT NULL,
    "created_by" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "published_at" TIMESTAMPTZ(3),
    "published_by" TEXT,
    "archived_at" TIMESTAMPTZ(3),
    "cloned_from" INTEGER,
    "mac" TEXT,

    CONSTRAINT "policy_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "tool" (
    "tenant_id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "manifest_hash" TEXT NOT NULL,
    "approved_hash" TEXT,
    "approval_status" TEXT NOT NULL,
    "risk_tier" TEXT NOT NULL,
    "drift_reason" TEXT,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "tool_pkey" PRIMARY KEY ("tenant_id","name")
);

-- CreateTable
CREATE TABLE "tool_version" (
    "tenant_id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "hash" TEXT NOT NULL,
    "surface_hash" TEXT NOT NULL,
    "manifest" TEXT NOT NULL,
    "drift" JSONB NOT NULL DEFAULT '[]',
    "ingested_by" TEXT NOT NULL,
    "ingested_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "tool_version_pkey" PRIMARY KEY ("tenant_id","name","hash")
);

-- CreateTable
CREATE TABLE "policy_candidate" (
    "id" TEXT NOT NULL,
    "tenant_id" TEXT NOT NULL,
    "fingerprint" TEXT NOT NULL,
    "status" TEXT NOT NULL DEFAULT 'open',
    "definition" TEXT NOT NULL,
    "support" JSONB NOT NULL,
    "policy_id" INTEGER,
    "decided_by" TEXT,
    "decided_at" TIMESTAMPTZ(3),
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "policy_candidate_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "observation" (
    "id" TEXT NOT NULL,
    "tenant_id" TEXT NOT NULL,
    "source" TEXT NOT NULL,
    "agent_id" TEXT,
    "tool" TEXT NOT NULL,
    "args_digest" TEXT NOT NULL,
    "shape" JSONB NOT NULL,
    "outcome" TEXT,
    "observed_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "observation_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "approval" (
    "id" SERIAL NOT NULL,
    "tenant_id" TEXT NOT NULL,
    "kind" TEXT NOT NULL DEFAULT 'action',
    "status" TEXT NOT NULL DEFAULT 'pending',
    "agent_id" TEXT NOT NULL,
    "user_id" TEXT NOT NULL,
    "tool" TEXT NOT NULL,
    "resource" TEXT NOT NULL,
    "risk_tier" TEXT NOT NULL,
    "reason_code" TEXT NOT NULL,
    "summary" TEXT NOT NULL,
    "chain_id" TEXT NOT NULL,
    "policy_hash" TEXT,
    "manifest_hash" TEXT,
    "action_digest" TEXT NOT NULL,
    "effective_digest" TEXT,
    "channels" TEXT[],
    "min_role" TEXT NOT NULL DEFAULT 'approver',
    "quorum" INTEGER NOT NULL DEFAULT 1,
    "proposed_args" TEXT,
    "effective_args" TEXT,
    "goal" TEXT,
    "sidecar_id" TEXT,
    "requested_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "reauth_required_at" TIMESTAMPTZ(3),
    "escalated_by" TEXT,
    "decided_by" TEXT,
    "decided_at" TIMESTAMPTZ(3),
    "comment" TEXT,
    "event_id" TEXT,
    "event_hash" TEXT,
    "grant_expires_at" TIMESTAMPTZ(3),
    "used_at" TIMESTAMPTZ(3),
    "used_by" TEXT,
    "mac" TEXT,

    CONSTRAINT "approval_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "approval_vote" (
    "id" TEXT NOT NULL,
    "tenant_id" TEXT NOT NULL,
    "approval_id" INTEGER NOT NULL,
    "principal" TEXT NOT NULL,
    "role" TEXT NOT NULL,
    "action" TEXT NOT NULL,
    "source" TEXT NOT NULL,
    "comment" TEXT,
    "event_id" TEXT NOT NULL,
    "voted_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "approval_vote_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "binding" (
    "tenant_id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "protocol" TEXT NOT NULL,
    "host" TEXT NOT NULL,
    "definition" JSONB NOT NULL,
    "updated_by" TEXT NOT NULL,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "mac" TEXT,

    CONSTRAINT "binding_pkey" PRIMARY KEY ("tenant_id","name")
);

-- CreateTable
CREATE TABLE "kill_switch" (
    "id" TEXT NOT NULL,
    "tenant_id" TEXT NOT NULL,
    "kind" TEXT NOT NULL,
    "tool" TEXT,
    "agent_id" TEXT,
    "mode" TEXT,
    "reason" TEXT NOT NULL,
    "armed_by" TEXT NOT NULL,
    "armed_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3),
    "disarmed_at" TIMESTAMPTZ(3),
    "disarmed_by" TEXT,

    CONSTRAINT "kill_switch_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "sidecar" (
    "id" TEXT NOT NULL,
    "tenant_id" TEXT NOT NULL,
    "agent_id" TEXT NOT NULL,
    "user_id" TEXT NOT NULL,
    "environment" TEXT NOT NULL,
    "signing_jwk" JSONB NOT NULL,
    "encryption_jwk" JSONB NOT NULL,
    "enrolled_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "last_seen_at" TIMESTAMPTZ(3),
    "report" JSONB,
    "acked_segment" TEXT,
    "acked_record" BIGINT NOT NULL DEFAULT 0,
    "revoked_at" TIMESTAMPTZ(3),

    CONSTRAINT "sidecar_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "enrolment_token" (
    "hash" TEXT NOT NULL,
    "tenant_id" TEXT NOT NULL,
    "agent_id" TEXT NOT NULL,
    "user_id" TEXT NOT NULL,
    "environment" TEXT NOT NULL,
    "uses_left" INTEGER NOT NULL,
    "created_by" TEXT NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "enrolment_token_pkey" PRIMARY KEY ("hash")
);

-- CreateTable
CREATE TABLE "sync_section" (
    "tenant_id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "version" BIGINT NOT NULL DEFAULT 1,
    "published_version" BIGINT NOT NULL DEFAULT 0,
    "digest" TEXT,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "sync_section_pkey" PRIMARY KEY ("tenant_id","name")
);

-- CreateTable
CREATE TABLE "credential" (
    "id" TEXT NOT NULL,
    "tenant_id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "version" INTEGER NOT NULL DEFAULT 1,
    "inject" JSONB NOT NULL,
    "tools" TEXT[],
    "hosts" TEXT[],
    "sealed" TEXT NOT NULL,
    "created_by" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "credential_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "signing_key" (
    "tenant_id" TEXT NOT NULL,
    "kid" TEXT NOT NULL,
    "purpose" TEXT NOT NULL,
    "alg" TEXT NOT NULL,
    "public_jwk" JSONB NOT NULL,
    "sealed" TEXT NOT NULL,
    "state" TEXT NOT NULL DEFAULT 'active',
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "retired_at" TIMESTAMPTZ(3),

    CONSTRAINT "signing_key_pkey" PRIMARY KEY ("tenant_id","kid")
);

-- CreateTable
CREATE TABLE "evidence_row" (
    "tenant_id" TEXT NOT NULL,
    "position" BIGINT NOT NULL,
    "chain_id" TEXT NOT NULL,
    "seq" BIGINT NOT NULL,
    "prev_hash" TEXT NOT NULL,
    "event_hash" TEXT NOT NULL,
    "canonical" TEXT NOT NULL,
    "event_id" TEXT NOT NULL,
    "type" TEXT NOT NULL,
    "source" TEXT NOT NULL,
    "agent_id" TEXT,
    "tool" TEXT,
    "decision" TEXT,
    "reason_code" TEXT,
    "occurred_at" TIMESTAMPTZ(3) NOT NULL,
    "sealed_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "evidence_row_pkey" PRIMARY KEY ("tenant_id","position")
);

-- CreateTable
CREATE TABLE "evidence_head" (
    "tenant_id" TEXT NOT NULL,
    "position" BIGINT NOT NULL DEFAULT 0,
    "frontier" TEXT[],
    "tree_root" TEXT NOT NULL,

    CONSTRAINT "evidence_head_pkey" PRIMARY KEY ("tenant_id")
);

-- CreateTable
CREATE TABLE "evidence_chain" (
    "tenant_id" TEXT NOT NULL,
    "chain_id" TEXT NOT NULL,
    "seq" BIGINT NOT NULL,
    "event_hash" TEXT NOT NULL,

    CONSTRAINT "evidence_chain_pkey" PRIMARY KEY ("tenant_id","chain_id")
);

-- CreateTable
CREATE TABLE "evidence_batch" (
    "tenant_id" TEXT NOT NULL,
    "position" BIGINT NOT NULL,
    "tree_root" TEXT NOT NULL,
    "kid" TEXT NOT NULL,
    "jws" TEXT NOT NULL,
    "latest_at" TIMESTAMPTZ(3) NOT NULL,
    "sealed_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "evidence_batch_pkey" PRIMARY KEY ("tenant_id","position")
);

-- CreateTable
CREATE TABLE "evidence_checkpoint" (
    "tenant_id" TEXT NOT NULL,
    "size" BIGINT NOT NULL,
    "note" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "evidence_checkpoint_pkey" PRIMARY KEY ("tenant_id","size")
);

-- CreateTable
CREATE TABLE "event_outbox" (
    "id" BIGSERIAL NOT NULL,
    "tenant_id" TEXT NOT NULL,
    "event_id" TEXT NOT NULL,
    "event" TEXT NOT NULL,
    "dead_lettered" BOOLEAN NOT NULL DEFAULT false,
    "attempts" INTEGER NOT NULL DEFAULT 0,
    "last_error" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "event_outbox_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "evidence_salt" (
    "tenant_id" TEXT NOT NULL,
    "event_id" TEXT NOT NULL,
    "sealed" TEXT NOT NULL,

    CONSTRAINT "evidence_salt_pkey" PRIMARY KEY ("tenant_id","event_id")
);

-- CreateTable
CREATE TABLE "install" (
    "id" TEXT NOT NULL,
    "tenant_id" TEXT NOT NULL,
    "channel" TEXT NOT NULL,
    "external_id" TEXT,
    "sealed" TEXT,
    "status" TEXT NOT NULL DEFAULT 'active',
    "created_by" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "install_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "sink" (
    "id" TEXT NOT NULL,
    "tenant_id" TEXT NOT NULL,
    "type" TEXT NOT NULL,
    "endpoint" TEXT NOT NULL,
    "sealed" TEXT,
    "active" BOOLEAN NOT NULL DEFAULT true,
    "position" BIGINT NOT NULL DEFAULT 0,
    "failures" INTEGER NOT NULL DEFAULT 0,
    "last_error" TEXT,
    "delivered_at" TIMESTAMPTZ(3),
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "sink_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "delivery" (
    "id" TEXT NOT NULL,
    "tenant_id" TEXT NOT NULL,
    "channel" TEXT NOT NULL,
    "kind" TEXT NOT NULL,
    "sealed" TEXT NOT NULL,
    "status" TEXT NOT NULL DEFAULT 'pending',
    "attempts" INTEGER NOT NULL DEFAULT 0,
    "next_attempt_at" TIMESTAMPTZ(3) NOT NULL,
    "last_error" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "delivered_at" TIMESTAMPTZ(3),

    CONSTRAINT "delivery_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "acl_pack" (
    "id" TEXT NOT NULL,
    "tenant_id" TEXT NOT NULL,
    "instance" TEXT NOT NULL,
    "connection" TEXT NOT NULL,
    "pack_version" INTEGER NOT NULL,
    "pack_hash" TEXT NOT NULL,
    "pending_hash" TEXT,
    "projection" JSONB NOT NULL,
    "policy_id" INTEGER,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "acl_pack_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "device_grant" (
    "device_hash" TEXT NOT NULL,
    "user_code" TEXT NOT NULL,
    "client_id" TEXT NOT NULL,
    "request" JSONB NOT NULL,
    "status" TEXT NOT NULL DEFAULT 'pending',
    "tenant_id" TEXT,
    "approved_by" TEXT,
    "interval" INTEGER NOT NULL DEFAULT 5,
    "polled_at" TIMESTAMPTZ(3),
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "device_grant_pkey" PRIMARY KEY ("device_hash")
);

-- CreateTable
CREATE TABLE "certification" (
    "id" TEXT NOT NULL,
    "tenant_id" TEXT NOT NULL,
    "record" JSONB NOT NULL,
    "signature" JSONB NOT NULL,
    "public_jwk" JSONB NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "certification_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE UNIQUE INDEX "api_key_hash_key" ON "api_key"("hash");

-- CreateIndex
CREATE INDEX "api_key_tenant_id_created_at_idx" ON "api_key"("tenant_id", "created_at");

-- CreateIndex
CREATE INDEX "idempotency_expires_at_idx" ON "idempotency"("expires_at");

-- CreateIndex
CREATE UNIQUE INDEX "agent_tenant_id_name_kind_key" ON "agent"("tenant_id", "name", "kind");

-- CreateIndex
CREATE UNIQUE INDEX "agent_tenant_id_id_key" ON "agent"("tenant_id", "id");

-- CreateIndex
CREATE UNIQUE INDEX "service_account_tenant_id_agent_id_name_key" ON "service_account"("tenant_id", "agent_id", "name");

-- CreateIndex
CREATE INDEX "passport_tenant_id_agent_id_user_id_issued_at_idx" ON "passport"("tenant_id", "agent_id", "user_id", "issued_at");

-- CreateIndex
CREATE INDEX "passport_expires_at_idx" ON "passport"("expires_at");

-- CreateIndex
CREATE INDEX "policy_tenant_id_lifecycle_idx" ON "policy"("tenant_id", "lifecycle");

-- CreateIndex
CREATE INDEX "policy_tenant_id_definition_id_idx" ON "policy"("tenant_id", "definition_id");

-- CreateIndex
CREATE UNIQUE INDEX "policy_tenant_id_id_key" ON "policy"("tenant_id", "id");

-- CreateIndex
CREATE INDEX "policy_candidate_tenant_id_status_idx" ON "policy_candidate"("tenant_id", "status");

-- CreateIndex
CREATE UNIQUE INDEX "policy_candidate_tenant_id_fingerprint_key" ON "policy_candidate"("tenant_id", "fingerprint");

-- CreateIndex
CREATE INDEX "observation_tenant_id_tool_observed_at_idx" ON "observation"("tenant_id", "tool", "observed_at");

-- CreateIndex
CREATE INDEX "approval_tenant_id_status_expires_at_idx" ON "approval"("tenant_id", "status", "expires_at");

-- CreateIndex
CREATE INDEX "approval_tenant_id_agent_id_status_idx" ON "approval"("tenant_id", "agent_id", "status");

-- CreateIndex
CREATE INDEX "approval_tenant_id_event_hash_idx" ON "approval"("tenant_id", "event_hash");

-- CreateIndex
CREATE INDEX "approval_tenant_id_sidecar_id_status_idx" ON "approval"("tenant_id", "sidecar_id", "status");

-- CreateIndex
CREATE UNIQUE INDEX "approval_tenant_id_id_key" ON "approval"("tenant_id", "id");

-- CreateIndex
CREATE INDEX "approval_vote_tenant_id_approval_id_idx" ON "approval_vote"("tenant_id", "approval_id");

-- CreateIndex
CREATE INDEX "binding_tenant_id_host_idx" ON "binding"("tenant_id", "host");

-- CreateIndex
CREATE INDEX "kill_switch_tenant_id_disarmed_at_idx" ON "kill_switch"("tenant_id", "disarmed_at");

-- CreateIndex
CREATE UNIQUE INDEX "kill_switch_tenant_id_id_key" ON "kill_switch"("tenant_id", "id");

-- CreateIndex
CREATE INDEX "sidecar_tenant_id_agent_id_idx" ON "sidecar"("tenant_id", "agent_id");

-- CreateIndex
CREATE UNIQUE INDEX "sidecar_tenant_id_id_key" ON "sidecar"("tenant_id", "id");

-- CreateIndex
CREATE INDEX "enrolment_token_tenant_id_idx" ON "enrolment_token"("tenant_id");

-- CreateIndex
CREATE UNIQUE INDEX "credential_tenant_id_name_key" ON "credential"("tenant_id", "name");

-- CreateIndex
CREATE INDEX "signing_key_tenant_id_purpose_state_idx" ON "signing_key"("tenant_id", "purpose", "state");

-- CreateIndex
CREATE INDEX "evidence_row_tenant_id_agent_id_position_idx" ON "evidence_row"("tenant_id", "agent_id", "position");

-- CreateIndex
CREATE INDEX "evidence_row_tenant_id_tool_position_idx" ON "evidence_row"("tenant_id", "tool", "position");

-- CreateIndex
CREATE INDEX "evidence_row_tenant_id_decision_position_idx" ON "evidence_row"("tenant_id", "decision", "position");

-- CreateIndex
CREATE INDEX "evidence_row_tenant_id_reason_code_position_idx" ON "evidence_row"("tenant_id", "reason_code", "position");

-- CreateIndex
CREATE INDEX "evidence_row_tenant_id_type_position_idx" ON "evidence_row"("tenant_id", "type", "position");

-- CreateIndex
CREATE INDEX "evidence_row_tenant_id_occurred_at_position_idx" ON "evidence_row"("tenant_id", "occurred_at", "position");

-- CreateIndex
CREATE UNIQUE INDEX "evidence_row_tenant_id_chain_id_seq_key" ON "evidence_row"("tenant_id", "chain_id", "seq");

-- CreateIndex
CREATE UNIQUE INDEX "evidence_row_tenant_id_event_id_key" ON "evidence_row"("tenant_id", "event_id");

-- CreateIndex
CREATE INDEX "event_outbox_tenant_id_id_idx" ON "event_outbox"("tenant_id", "id");

-- CreateIndex
CREATE UNIQUE INDEX "event_outbox_tenant_id_event_id_key" ON "event_outbox"("tenant_id", "event_id");

-- CreateIndex
CREATE UNIQUE INDEX "install_tenant_id_channel_key" ON "install"("tenant_id", "channel");

-- CreateIndex
CREATE UNIQUE INDEX "install_channel_external_id_key" ON "install"("channel", "external_id");

-- CreateIndex
CREATE INDEX "sink_tenant_id_idx" ON "sink"("tenant_id");

-- CreateIndex
CREATE INDEX "delivery_tenant_id_status_next_attempt_at_idx" ON "delivery"("tenant_id", "status", "next_attempt_at");

-- CreateIndex
CREATE UNIQUE INDEX "acl_pack_tenant_id_instance_connection_key" ON "acl_pack"("tenant_id", "instance", "connection");

-- CreateIndex
CREATE UNIQUE INDEX "device_grant_user_code_key" ON "device_grant"("user_code");

-- CreateIndex
CREATE INDEX "device_grant_expires_at_idx" ON "device_grant"("expires_at");

-- CreateIndex
CREATE INDEX "certification_tenant_id_idx" ON "certification"("tenant_id");

-- AddForeignKey
ALTER TABLE "approval_vote" ADD CONSTRAINT "approval_vote_tenant_id_approval_id_fkey" FOREIGN KEY ("tenant_id", "approval_id") REFERENCES "approval"("tenant_id", "id") ON DELETE RESTRICT ON UPDATE CASCADE;
