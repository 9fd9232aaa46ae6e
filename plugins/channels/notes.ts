import type { Collection } from '../../core/store/collection.js'
import type { NoteRow } from './rows.js'

/** A note that nobody takes is of no use after this. */
const KEEP_MS = 3_600_000
const MAX_TAKEN = 500

/** `waiting`: there is something to work off; `changed`: the channel's record is another, or gone. */
export type NoteKind = NoteRow['kind']

/**
 * Short notes between gateways on one store: whoever gets a webhook, a reply or a change for a channel that another
 * gateway holds leaves one, and the holder finds it at its next look.
 */
export class Notes {
  readonly #rows: Collection<NoteRow>

  constructor(rows: Collection<NoteRow>) {
    this.#rows = rows
  }

  async leave(channelId: string, kind: NoteKind): Promise<void> {
    const expiresAt = new Date(Date.now() + KEEP_MS).toISOString()
    await this.#rows.updateOne({ id: `${channelId} ${kind}` }, { $set: { channelId, kind, expiresAt } }, { upsert: true })
  }

  /** Takes the notes for channels of this gateway. What is left after this was stored after it. */
  async take(isMine: (channelId: string) => boolean): Promise<{ channelId: string; kind: NoteKind }[]> {
    const mine = (await this.#rows.find({}, { limit: MAX_TAKEN })).filter(({ channelId }) => isMine(channelId))
    if (mine.length > 0) await this.#rows.deleteMany({ id: { $in: mine.map(({ id }) => id) } })
    return mine
  }
}
