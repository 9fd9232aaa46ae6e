import { upstreamUnavailable } from '../../core/errors.js'
import { definePlugin } from '../../core/plugin.js'
import { models, OFFLINE, type ModelProvider } from '../models/contract.js'
import { answerOffline } from './answer.js'

/**
 * The built-in provider: answers without a network, through the same tools that any model gets, so that an agent's
 * allow-list holds here too and no area is known by name.
 */
const offline: ModelProvider = {
  name: OFFLINE,
  check: model => {
    if (model !== '') throw upstreamUnavailable(`The built-in provider "${OFFLINE}" has no model "${model}": name it as "${OFFLINE}" alone`)
  },
  generate: async (_model, { messages, tools = [], signal }) => {
    const question = messages.findLast(({ role }) => role === 'user')
    const text = await answerOffline(question ?? { role: 'user', content: '/help' }, tools)
    signal.throwIfAborted()
    return { text, model: OFFLINE, calls: [] }
  },
  describe: () => ({ source: 'builtin', models: [], ready: true }),
}

export default definePlugin({
  id: 'offline',
  needs: { models },
  extends: ['models'],
  setup: ({ needs, onStop }) => {
    onStop(needs.models.register(offline))
  },
})
