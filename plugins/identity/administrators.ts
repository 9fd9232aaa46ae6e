import { isDeepStrictEqual } from 'node:util'
import { conflict } from '../../core/errors.js'
import type { Collection, Filter } from '../../core/store/collection.js'
import type { GuardRow } from './rows.js'

const ID = 'administrators'

/**
 * Keeps one enabled administrator of the whole gateway at least. Who they are stands in one document, so that
 * leaving is one conditional update: two who demote each other at the same moment do not both succeed.
 *
 * Whoever stands in it is an administrator: a user joins after it became one, and leaves before it ceases to be one.
 * Only whose `leave` took the user out may go on to change it, or else has to bring it back by `join`.
 */
export class Administrators {
  readonly #rows: Collection<GuardRow>

  constructor(rows: Collection<GuardRow>) {
    this.#rows = rows
  }

  /** Makes the document agree with the users; for starts, after a crash in the middle of a change. */
  async reconcile(userIds: string[]): Promise<void> {
    const known = await this.#rows.findOne({ id: ID })
    // The first write starts a thread, which a start that changes nothing need not wait for.
    if (known && isDeepStrictEqual([...known.userIds].sort(), [...userIds].sort())) return
    await this.#rows.updateOne({ id: ID }, { $set: { userIds } }, { upsert: true })
  }

  async join(userId: string): Promise<void> {
    await this.#rows.updateOne({ id: ID }, { $addToSet: { userIds: userId } }, { upsert: true })
  }

  /** Whether this call took the user out; `false` while another one is about to. Rejects with `conflict` for the last one. */
  async leave(userId: string): Promise<boolean> {
    const present: Filter<GuardRow> = { id: ID, userIds: { $in: [userId] } }
    if (await this.#rows.updateOne({ ...present, 'userIds.1': { $exists: true } }, { $pull: { userIds: userId } })) return true
    if (!(await this.#rows.findOne(present))) return false
    throw conflict('This is the last enabled administrator of the gateway: make another one first')
  }
}
