import { collection } from '../../core/store/collection.js'
import type { MessageRow, SessionRow, TaskRow } from './records.js'

export const collections = {
  sessions: collection.user<SessionRow>({
    indexes: [{ fields: { sessionKey: 1 }, unique: true, sparse: true }, { fields: { updatedAt: -1, id: -1 } }],
  }),
  messages: collection.user<MessageRow>({ indexes: [{ fields: { sessionId: 1, order: 1 } }, { fields: { sessionId: 1, turn: 1 } }] }),
  tasks: collection.user<TaskRow>({
    expires: true,
    indexes: [
      { fields: { sessionId: 1, turn: 1 }, unique: true },
      { fields: { idempotencyKey: 1 }, unique: true, sparse: true },
      { fields: { stage: 1, createdAt: 1 } },
      { fields: { status: 1, createdAt: 1 }, acrossOwners: true },
      { fields: { 'delivery.state': 1, 'delivery.nextAt': 1 }, sparse: true, acrossOwners: true },
    ],
  }),
}
