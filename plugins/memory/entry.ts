/** One thing remembered, as it is stored. */
export interface Entry {
  /** `mem_...` */
  id: string
  /** Whom it is about: today always the user. */
  scope: 'user'
  text: string
  agentId?: string
  sessionId?: string
  /** The entry that replaced this one. */
  supersededBy?: string
  idempotencyKey?: string
  createdAt: string
  updatedAt: string
}
