import type { Caller } from '../../core/http/caller.js'
import { newId } from '../../core/id.js'
import { redactData } from '../../core/redaction.js'
import type { Collection } from '../../core/store/collection.js'
import type { Audit, AuditEntry, AuditRecord } from './contract.js'

export interface AuditRow {
  id: string
  at: string
  /** The tenant that the caller worked in; `null`: none, or the gateway itself. */
  tenant: string | null
  /** `null`: the gateway itself, or somebody unknown. */
  userId: string | null
  credential: { kind: string; id: string } | null
  action: string
  target: string | null
  outcome: 'succeeded' | 'refused' | 'failed'
  details: Record<string, unknown>
  expiresAt: string
}

const DAY_MS = 86_400_000
/** Details above this are replaced by their size: an entry says what happened, it does not keep copies. */
const MAX_DETAILS_BYTES = 16 * 1024

const boundDetails = (details: Record<string, unknown>): Record<string, unknown> => {
  const bytes = Buffer.byteLength(JSON.stringify(details))
  return bytes > MAX_DETAILS_BYTES ? { omittedBytes: bytes } : redactData(details)
}

/** Writes audit entries; each is on disk when `record` resolves. */
export const createAudit = (rows: Collection<AuditRow>, retentionDays: () => number): Audit => ({
  async record(by: Caller | null, { action, target, outcome = 'succeeded', details = {}, tenant = null }: AuditEntry) {
    const now = Date.now()
    await rows.insertOne({
      id: newId('aud'),
      at: new Date(now).toISOString(),
      tenant: by ? by.tenant : tenant,
      userId: by?.userId || null,
      credential: by ? { kind: by.credential.kind, id: by.credential.id } : null,
      action,
      target: target === undefined ? null : redactData(target),
      outcome,
      details: boundDetails(details),
      expiresAt: new Date(now + retentionDays() * DAY_MS).toISOString(),
    })
  },
  async of({ tenant, area, target }, options) {
    // `.` and what follows it: every action of the area.
    const page = await rows.page({ target, tenant, action: { $gt: `${area}.`, $lt: `${area}/` } }, { ...options, sort: { at: -1 } })
    return { ...page, items: page.items.map(toRecord) }
  },
})

const toRecord = ({ id, at, action, target, outcome, userId, details }: AuditRow): AuditRecord => ({
  id,
  at,
  action,
  target,
  outcome,
  userId,
  details,
})
