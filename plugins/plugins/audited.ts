import type { Caller } from '../../core/http/caller.js'
import type { Audit } from '../audit/contract.js'

/** What there is to say once it is done. */
interface Done {
  target?: string
  details?: Record<string, unknown>
}

interface Action {
  action: string
  target: string
}

/** Does something for an administrator, and keeps that it was done or failed. */
export type Audited = <T extends Done | undefined>(caller: Caller, what: Action, act: () => Promise<T>) => Promise<T>

export const auditedBy =
  (audit: Audit): Audited =>
  async (caller, what, act) => {
    const done = await act().catch(async (error: unknown) => {
      await audit.record(caller, { ...what, outcome: 'failed', details: { error: (error as Error).message } })
      throw error
    })
    await audit.record(caller, { ...what, outcome: 'succeeded', ...done })
    return done
  }
