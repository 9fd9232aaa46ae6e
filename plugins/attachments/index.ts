import { definePlugin } from '../../core/plugin.js'
import { chat } from '../chat/contract.js'
import { documents } from '../documents/contract.js'

/** Lets messages carry documents: chat and documents stand without each other, and meet here. */
export default definePlugin({
  id: 'attachments',
  needs: { chat, documents },
  extends: ['chat'],
  setup: ({ needs, onStop }) => {
    onStop(needs.chat.attachmentSource({ text: (owner, id, maxLength) => needs.documents.text(owner, id, maxLength) }))
  },
})
