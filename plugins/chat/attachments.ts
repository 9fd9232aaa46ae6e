import { GatewayError, notFound, validationFailed } from '../../core/errors.js'
import type { Owner } from '../../core/store/collection.js'
import { MAX_ATTACHMENTS, type AttachmentSource } from './contract.js'

/** What one attachment may take of the model's context, in characters. */
const MAX_TEXT_LENGTH = 20_000

/** The texts of attached documents, from whoever keeps documents. */
export class Attachments {
  #source: AttachmentSource | undefined

  register(source: AttachmentSource): () => void {
    if (this.#source) throw new Error('Two plugins give the texts of attachments')
    this.#source = source
    return () => {
      if (this.#source === source) this.#source = undefined
    }
  }

  /** Throws when one of them cannot be attached by this owner. */
  async check(owner: Owner, ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return
    if (ids.length > MAX_ATTACHMENTS)
      throw validationFailed([{ path: 'attachments', message: `has more than ${MAX_ATTACHMENTS} documents` }])
    const source = this.#source
    if (!source) throw validationFailed([{ path: 'attachments', message: 'cannot be used: this gateway keeps no documents' }])
    await Promise.all(ids.map(id => source.text(owner, id, 0)))
  }

  /** A document that was deleted since then, or has no text, says so in place of its text. */
  async read(owner: Owner, ids: readonly string[]): Promise<{ name: string; text: string }[]> {
    return Promise.all(ids.map(id => this.#readOne(owner, id)))
  }

  async #readOne(owner: Owner, id: string): Promise<{ name: string; text: string }> {
    try {
      const source = this.#source
      if (!source) throw notFound('Document')
      const { name, text } = await source.text(owner, id, MAX_TEXT_LENGTH)
      return { name, text: text ?? '(no text could be extracted)' }
    } catch (error) {
      if (error instanceof GatewayError && error.code === 'not_found') return { name: id, text: '(this document was deleted)' }
      throw error
    }
  }
}
