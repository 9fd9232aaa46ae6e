import type { Caller } from '../../core/http/caller.js'
import { service } from '../../core/plugin.js'

export interface AuditEntry {
  /** `<area>.<verb>`, for example `plugins.restart`. */
  action: string
  /** What it was done to: a record's id or name. */
  target?: string
  outcome?: 'succeeded' | 'refused' | 'failed'
  /** Plain data; secrets are redacted. */
  details?: Record<string, unknown>
}

/** Who did what: kept durably, apart from the log. */
export interface Audit {
  /** `by: null`: the gateway itself. */
  record(by: Caller | null, entry: AuditEntry): Promise<void>
}

export const audit = service<Audit>('audit')
