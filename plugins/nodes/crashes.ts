import { newId } from '../../core/id.js'
import type { Page, PageOptions, ScopedHandle } from '../../core/store/collection.js'
import type { Crash } from './records.js'
import type { CrashRow } from './rows.js'
import type { SessionIdentity } from './session.js'

/** Reports kept of each node, the newest. */
export const MAX_CRASHES = 100
const RETENTION_MS = 90 * 86_400_000

export interface NewCrash {
  message: string
  stack?: string | undefined
  version?: string | undefined
  platform?: string | undefined
  occurredAt?: string | undefined
}

/** What nodes report about their own crashes. */
export class Crashes {
  readonly #rows: ScopedHandle<CrashRow, 'tenant'>

  constructor(rows: ScopedHandle<CrashRow, 'tenant'>) {
    this.#rows = rows
  }

  async add({ id: nodeId, tenant }: SessionIdentity, crash: NewCrash): Promise<Crash> {
    const rows = this.#rows.for({ tenant })
    const now = Date.now()
    const createdAt = new Date(now).toISOString()
    const row: CrashRow = {
      id: newId('crs'),
      nodeId,
      message: crash.message,
      stack: crash.stack ?? null,
      version: crash.version ?? null,
      platform: crash.platform ?? null,
      occurredAt: crash.occurredAt ?? createdAt,
      createdAt,
      expiresAt: new Date(now + RETENTION_MS).toISOString(),
    }
    await rows.insertOne(row)
    const surplus = await rows.find({ nodeId }, { sort: { createdAt: -1 }, skip: MAX_CRASHES, limit: MAX_CRASHES })
    if (surplus.length > 0) await rows.deleteMany({ id: { $in: surplus.map(({ id }) => id) } })
    return toCrash(row)
  }

  async page(owner: { tenant: string | null }, nodeId: string, options: PageOptions): Promise<Page<Crash>> {
    const page = await this.#rows.for(owner).page({ nodeId }, options)
    return { ...page, items: page.items.map(toCrash) }
  }
}

const toCrash = ({ id, message, stack, version, platform, occurredAt, createdAt }: CrashRow): Crash => ({
  id,
  message,
  occurredAt,
  createdAt,
  ...(stack === null ? {} : { stack }),
  ...(version === null ? {} : { version }),
  ...(platform === null ? {} : { platform }),
})
