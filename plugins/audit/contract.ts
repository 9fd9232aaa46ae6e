import { z } from 'zod'
import type { Caller } from '../../core/http/caller.js'
import { service } from '../../core/plugin.js'
import type { Page, PageOptions } from '../../core/store/collection.js'

export interface AuditEntry {
  /** `<area>.<verb>`, for example `plugins.restart`. */
  action: string
  /** What it was done to: a record's id or name. */
  target?: string
  outcome?: 'succeeded' | 'refused' | 'failed'
  /** Plain data; secrets are redacted. */
  details?: Record<string, unknown>
  /** Whose matter it is when the gateway itself acts; with a caller, the caller's. */
  tenant?: string | null
}

export const AuditRecord = z
  .object({
    id: z.string(),
    at: z.string(),
    action: z.string(),
    target: z.string().nullable(),
    outcome: z.enum(['succeeded', 'refused', 'failed']),
    userId: z.string().nullable().describe('Who did it; `null`: the gateway itself'),
    details: z.record(z.string(), z.unknown()),
  })
  .meta({ id: 'AuditRecord' })
export type AuditRecord = z.infer<typeof AuditRecord>

/** Who did what: kept durably, apart from the log. */
export interface Audit {
  /** `by: null`: the gateway itself. */
  record(by: Caller | null, entry: AuditEntry): Promise<void>
  /** What was done to one thing of a tenant by actions of one area (`nodes`), newest first. */
  of(subject: { tenant: string | null; area: string; target: string }, options: PageOptions): Promise<Page<AuditRecord>>
}

export const audit = service<Audit>('audit')
