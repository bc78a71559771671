import { z } from 'zod';
import { isJsonObject, type JsonObject } from '../../shared/base/json.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { saltedDigest } from '../../shared/ledger/privacy/arguments.ts';
import type { Services } from '../core/services.ts';
import { keptArgumentsPlace, saltPlace } from '../ledger/privacy/store-salts.ts';
import { findEvent } from '../ledger/reading/find-event.ts';
import { readSealed } from '../ledger/reading/sealed-text.ts';
import { readTextColumn } from '../platform/store/read-column.ts';

const keptForm = z.custom<JsonObject>(isJsonObject);

/** Returns the stored arguments of an event, and whether they match the event's digest. */
export async function readEventArguments(
  { db, pool, vault }: Pick<Services, 'db' | 'pool' | 'vault'>,
  tenantId: string,
  id: string,
) {
  const { key, canonical } = await findEvent(pool, tenantId, id);
  const row = await db.evidenceSalt.findUnique({
    where: { tenantId_eventId: { tenantId, eventId: key } },
  });
  if (row !== null && row.erasedAt !== null) throw new GatewayError('evidence.arguments_erased');
  if (row === null || row.arguments === null) {
    throw new GatewayError('evidence.arguments_not_kept');
  }
  const text = vault.open(row.arguments, keptArgumentsPlace(tenantId, key)).toString('utf8');
  const salt = vault.open(row.sealed, saltPlace(tenantId, key)).toString('utf8');
  const kept = readTextColumn(keptForm, text, 'evidence_salt.arguments');
  const { data } = readSealed(canonical);
  return {
    event_id: id,
    arguments: kept,
    proven: data.args_kept_digest === saltedDigest(Buffer.from(salt, 'base64'), kept),
  };
}
