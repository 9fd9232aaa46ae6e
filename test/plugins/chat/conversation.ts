import assert from 'node:assert/strict'
import agents from '../../../plugins/agents/index.js'
import audit from '../../../plugins/audit/index.js'
import chat from '../../../plugins/chat/index.js'
import identity from '../../../plugins/identity/index.js'
import { identity as identityRef } from '../../../plugins/identity/contract.js'
import memory from '../../../plugins/memory/index.js'
import models from '../../../plugins/models/index.js'
import offline from '../../../plugins/offline/index.js'
import tools from '../../../plugins/tools/index.js'
import vault from '../../../plugins/vault/index.js'
import type { Plugin } from '../../../core/plugin.js'
import type { Owner } from '../../../core/store/collection.js'
import { login, startGateway, type Answer, type GatewayOptions, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'

/** What a conversation needs, without documents, channels and the plugin host. */
const conversationPlugins: readonly Plugin[] = [identity, audit, vault, agents, chat, tools, models, memory, offline]

export const startConversations = ({ plugins = [], ...options }: GatewayOptions = {}): Promise<TestGateway> =>
  startGateway({ ...options, plugins: [...conversationPlugins, ...plugins] })

/** One user's way of talking to a gateway. */
export class Speaker {
  readonly gateway: Pick<TestGateway, 'call'>
  readonly token: string

  constructor(gateway: Pick<TestGateway, 'call'>, token: string) {
    this.gateway = gateway
    this.token = token
  }

  call(method: string, path: string, body?: unknown): Promise<Answer> {
    return this.gateway.call(method, path, { token: this.token, ...(body === undefined ? {} : { body }) })
  }

  /** Calls, and asserts the status. */
  async expect(status: number, method: string, path: string, body?: unknown): Promise<Answer['body']> {
    const answer = await this.call(method, path, body)
    assert.equal(answer.status, status, `${method} ${path}: ${answer.text}`)
    return answer.body
  }

  send(message: string, more: Record<string, unknown> = {}): Promise<{ taskId: string; sessionId: string; messageId: string }> {
    return this.expect(202, 'POST', '/chat', { message, ...more })
  }

  /** The task once it has ended. */
  finished(taskId: string): Promise<Answer['body']> {
    return waitFor(`the task ${taskId} ends`, async () => {
      const { body } = await this.call('GET', `/tasks/${taskId}`)
      return ['succeeded', 'failed', 'cancelled'].includes(body.status) ? body : undefined
    })
  }

  /** Sends a message and gives its answer's text, with the session. */
  async ask(message: string, more: Record<string, unknown> = {}): Promise<{ reply: string; sessionId: string; taskId: string }> {
    const { taskId, sessionId } = await this.send(message, more)
    const task = await this.finished(taskId)
    const messages = await this.messages(sessionId)
    return { reply: messages.find(({ id }) => id === task.replyMessageId)?.content ?? '', sessionId, taskId }
  }

  async messages(sessionId: string): Promise<{ id: string; role: string; content: string; taskId?: string; createdAt: string }[]> {
    return (await this.expect(200, 'GET', `/sessions/${sessionId}/messages?limit=200`)).items
  }
}

export const admin = async (gateway: TestGateway): Promise<Speaker> => new Speaker(gateway, await login(gateway))

/** Another user, without any role but `User`. */
export const newUser = async (gateway: TestGateway, email: string): Promise<Speaker & { owner: Owner }> => {
  const password = 'a long enough password'
  const user = await gateway.service(identityRef).createUser({ email, name: email, password, roles: ['User'] })
  const speaker = new Speaker(gateway, await login(gateway, { email, password }))
  return Object.assign(speaker, { owner: { tenant: user.tenant, userId: user.id } })
}

/** The owner that the speaker's requests work for. */
export const ownerOf = async (speaker: Speaker): Promise<Owner> => {
  const { id, tenant } = await speaker.expect(200, 'GET', '/auth/me')
  return { userId: id, tenant }
}
