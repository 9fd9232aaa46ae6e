import { gatewayListening } from '../../core/events.js'
import { Holder } from '../../core/lease.js'
import { definePlugin } from '../../core/plugin.js'
import { agents } from '../agents/contract.js'
import { identity } from '../identity/contract.js'
import { models } from '../models/contract.js'
import { tools } from '../tools/contract.js'
import { Acceptance } from './accept.js'
import { Attachments } from './attachments.js'
import { collections } from './collections.js'
import { chat, type Chat } from './contract.js'
import { TaskLedger } from './ledger.js'
import { messageIdOf } from './records.js'
import { Replies } from './replies.js'
import { chatRoutes, sessionRoutes, taskRoutes } from './routes.js'
import { TaskRunner } from './runner.js'
import { Sessions } from './sessions.js'
import { chatSettings } from './settings.js'
import { Tasks } from './tasks.js'
import { Turn } from './turn.js'

export default definePlugin({
  id: 'chat',
  tags: {
    chat: 'Send a message to an agent; the answer is made in the background.',
    sessions: 'Conversations and their messages.',
    tasks: 'What agents work on, or have done.',
  },
  provides: chat,
  needs: { agents, identity, models, tools },
  collections,
  settings: chatSettings,
  setup: ({ needs, store, settings, log, routes, on, onStop }): Chat => {
    const { sessions, messages, tasks } = store
    const holder = new Holder()
    const attachments = new Attachments()
    const ledger = new TaskLedger(store, holder, () => settings.retentionDays.get())
    const replies = new Replies(tasks, holder, log)
    const turn = new Turn({ ...needs, ledger, sessions, messages, attachments, historyCharacters: () => settings.historyCharacters.get() })
    const runner = new TaskRunner({
      ledger,
      tasks,
      holder,
      log,
      concurrency: () => settings.concurrency.get(),
      stopGraceMs: () => settings.stopGraceMs.get(),
      run: (task, signal, resting) => turn.run(task, signal, resting),
      onSettled: () => replies.wake(),
    })
    const taskList = new Tasks({
      tasks,
      ledger,
      abort: id => runner.abort(id),
      onSettled: () => {
        replies.wake()
        runner.wake()
      },
    })
    const acceptance = new Acceptance({ ...needs, attachments, ledger, sessions, tasks, maxPending: () => settings.maxPending.get() })
    const service: Chat = {
      send: async (owner, message) => {
        const { id, sessionId } = await acceptance.accept(owner, message)
        runner.wake()
        return { taskId: id, sessionId, messageId: messageIdOf(id, 0) }
      },
      onReply: (kind, sink) => replies.onReply(kind, sink),
      attachmentSource: source => attachments.register(source),
    }
    onStop(
      needs.identity.onRemoval('chat', async owner => {
        await taskList.endAll(owner)
        await sessions.for(owner).deleteMany({})
        await messages.for(owner).deleteMany({})
        await tasks.for(owner).deleteMany({})
      }),
    )
    onStop(() => holder.close())
    onStop(() => replies.stop())
    onStop(() => runner.stop())
    on(gatewayListening, () => {
      runner.start()
      replies.start()
    })
    settings.concurrency.onChange(() => runner.wake())
    routes(chatRoutes(service))
    routes(sessionRoutes(new Sessions(sessions, messages, (owner, id) => taskList.endSession(owner, id))))
    routes(taskRoutes(taskList))
    return service
  },
})
