-- CreateTable
CREATE TABLE "evidence_node" (
    "tenant_id" TEXT NOT NULL,
    "level" INTEGER NOT NULL,
    "index" BIGINT NOT NULL,
    "hash" TEXT NOT NULL,

    CONSTRAINT "evidence_node_pkey" PRIMARY KEY ("tenant_id","level","index")
);

-- CreateTable
CREATE TABLE "evidence_cosignature" (
    "tenant_id" TEXT NOT NULL,
    "size" BIGINT NOT NULL,
    "witness" TEXT NOT NULL,
    "line" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "evidence_cosignature_pkey" PRIMARY KEY ("tenant_id","size","witness")
);

-- Written once, as the rows that they are made of.
CREATE TRIGGER evidence_node_append_only BEFORE UPDATE OR DELETE ON "evidence_node"
  FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER evidence_node_no_truncate BEFORE TRUNCATE ON "evidence_node"
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER evidence_cosignature_append_only BEFORE UPDATE OR DELETE ON "evidence_cosignature"
  FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER evidence_cosignature_no_truncate BEFORE TRUNCATE ON "evidence_cosignature"
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
