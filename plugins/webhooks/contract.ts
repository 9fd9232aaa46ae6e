import { service } from '../../core/plugin.js'

/** A request to a webhook URL, as it came. */
export interface InboundWebhook {
  method: 'GET' | 'POST'
  /** A repeated name keeps its last value. */
  query: Record<string, string>
  /** Lower-case names; without the headers that belong to the connection and without cookies. */
  headers: Record<string, string>
  /** The exact bytes. */
  body: Buffer
  /** ISO 8601 UTC. */
  receivedAt: string
}

/** What the sender is answered. Headers outside the allow-list of `answer.ts` are left out. */
export interface WebhookAnswer {
  status: number
  headers?: Record<string, string>
  body?: Buffer | string
}

/** Something that a slug may name. */
export interface WebhookTarget {
  /** The whole slug; compared in constant time with the one called. */
  readonly slug: string
  /** Errors thrown are answered in the usual envelope. */
  receive(webhook: InboundWebhook): Promise<WebhookAnswer>
}

/**
 * The inbound side of webhooks: one route, `/webhooks/receive/:slug`, and an open set of what takes requests there.
 * A slug is a record's id and a secret, `chn_4f….Zm9v…`: the id finds the record by its primary key, and without the
 * secret it is nothing.
 */
export interface InboundWebhooks {
  /** A new unguessable slug (192 random bits) for the record `id`, which is `<prefix>_...`. */
  mint(id: string): string
  /** Where to post for this slug. Empty host before the gateway listens. */
  url(slug: string): string
  /** Finds the records whose ids begin with `<prefix>_`; `null` for none, or for one that takes nothing now. Returns the undo. */
  register(prefix: string, find: (id: string) => Promise<WebhookTarget | null>): () => void
}

export const inboundWebhooks = service<InboundWebhooks>('inboundWebhooks')
