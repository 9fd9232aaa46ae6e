import { conflict } from '../../core/errors.js'
import type { ScopedHandle } from '../../core/store/collection.js'
import type { Agents } from '../agents/contract.js'
import type { Models, ModelTool, ToolCall } from '../models/contract.js'
import type { ToolContext, Tools } from '../tools/contract.js'
import type { Attachments } from './attachments.js'
import { earlierMessages, systemPrompt } from './history.js'
import type { TaskLedger } from './ledger.js'
import type { Resting } from './runner.js'
import { messageIdOf, type MessageRow, type Outcome, type OwnedTask, type SessionRow } from './records.js'

/** Messages read to make the history of; more than a sensible character bound ever takes. */
const MAX_HISTORY_ROWS = 400
/** Tool calls shown in the session for one turn, and the characters of each. */
const MAX_SHOWN_CALLS = 100
const MAX_CALL_LENGTH = 16_384
/** The longest reply kept, in characters. */
const MAX_REPLY_LENGTH = 400_000

interface TurnNeeds {
  agents: Agents
  models: Models
  tools: Tools
  ledger: TaskLedger
  sessions: ScopedHandle<SessionRow>
  messages: ScopedHandle<MessageRow>
  attachments: Attachments
  /** For everything before the message at hand. */
  historyCharacters: () => number
}

/** One turn of a conversation: what the agent makes of the task's message. */
export class Turn {
  readonly #needs: TurnNeeds

  constructor(needs: TurnNeeds) {
    this.#needs = needs
  }

  /** Rejects with what went wrong, or with the reason of `signal`. */
  async run(task: OwnedTask, signal: AbortSignal, resting: Resting): Promise<Outcome> {
    const { agents, models, historyCharacters } = this.#needs
    const rows = await this.#placed(task)
    const agent = await agents.get(task, task.agentId)
    const attachments = await this.#needs.attachments.read(task, task.message.attachments ?? [])
    const { permissions } = task
    const context = { owner: task, agentId: agent.id, sessionId: task.sessionId, taskId: task.id, signal, resting }
    const tools = await this.#toolsFor(agent.tools, { ...context, ...(permissions === undefined ? {} : { permissions }) })
    const { text, calls } = await models.generate({
      ...(agent.model === undefined ? {} : { model: agent.model }),
      system: systemPrompt(agent, task.turn === 1),
      messages: [...earlierMessages(rows, task.turn, historyCharacters()), { role: 'user', content: task.message.content, attachments }],
      tools,
      signal,
    })
    const reply = text.length > MAX_REPLY_LENGTH ? `${text.slice(0, MAX_REPLY_LENGTH)}…` : text
    const shown = calls.slice(0, MAX_SHOWN_CALLS).map(call => ({ role: 'tool' as const, content: showCall(call) }))
    const messages = [...shown, { role: 'assistant' as const, content: reply }]
    return { status: 'succeeded', messages, text: reply, at: new Date().toISOString() }
  }

  /** The session's newest messages up to this turn, the task's own among them even after a crash right behind its acceptance. */
  async #placed(task: OwnedTask): Promise<MessageRow[]> {
    const { ledger, sessions, messages } = this.#needs
    const rows = await messages
      .for(task)
      .find({ sessionId: task.sessionId, turn: { $lte: task.turn } }, { sort: { turn: -1 }, limit: MAX_HISTORY_ROWS })
    if (!rows.some(({ id }) => id === messageIdOf(task.id, 0))) await ledger.place(task)
    if (!(await sessions.for(task).findOne({ id: task.sessionId }))) throw conflict('The session was deleted')
    return rows
  }

  async #toolsFor(allowed: readonly string[], context: ToolContext): Promise<ModelTool[]> {
    const usable = await this.#needs.tools.usable(context.owner, allowed, context.permissions)
    return usable.map(tool => ({
      name: tool.name,
      description: tool.description,
      parameters: tool.parameters,
      execute: parameters => tool.execute(parameters, context),
    }))
  }
}

const showCall = (call: ToolCall): string => {
  const json = JSON.stringify(call)
  return json.length > MAX_CALL_LENGTH ? `${json.slice(0, MAX_CALL_LENGTH)}…` : json
}
