import assert from 'node:assert/strict'
import { unauthenticated } from '../../../core/errors.js'
import { anonymous, type Caller } from '../../../core/http/caller.js'
import { eventStream } from '../../../core/http/eventStream.js'
import { route } from '../../../core/http/route.js'
import { definePlugin } from '../../../core/plugin.js'
import { startGateway, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'
import { routesPlugin } from './support.js'

const admin: Caller = { ...anonymous, kind: 'user', userId: 'a', roles: ['Admin'] }

describe('a stream of events', () => {
  let gateway: TestGateway
  /** What the credentials say at the moment. */
  let known: () => Caller | Promise<Caller> = () => admin
  let checks = 0
  let open = 0

  before(async () => {
    const identity = definePlugin({
      id: 'changing-identity',
      setup: ({ http }) => {
        http.authenticator('user', () => {
          checks += 1
          return known()
        })
      },
    })
    const events = route({
      method: 'GET',
      path: '/events',
      access: 'admin',
      limit: 'read',
      summary: 'Events',
      produces: ['text/event-stream'],
      handle: request =>
        eventStream(
          request,
          send => {
            open += 1
            send({ id: '1', data: 'first' })
            return () => (open -= 1)
          },
          { admissionCheckMs: 20 },
        ),
    })
    gateway = await startGateway({ plugins: [identity, routesPlugin(events)] })
  })
  after(() => gateway.stop())
  beforeEach(() => (known = () => admin))

  const listen = async (): Promise<{ text: Promise<string> }> => {
    const response = await fetch(`${gateway.url}/api/events`)
    assert.equal(response.status, 200)
    await waitFor('the stream', () => open === 1)
    return { text: response.text() }
  }

  const untilChecked = async (times: number): Promise<void> => {
    const before = checks
    await waitFor('looks', () => checks >= before + times)
  }

  it('ends when the session behind it does', async () => {
    const { text } = await listen()
    await untilChecked(3)
    assert.equal(open, 1)
    known = () => {
      throw unauthenticated()
    }
    assert.match(await text, /"first"/)
    await waitFor('the undo', () => open === 0)
    const after = checks
    await new Promise(resolve => setTimeout(resolve, 100))
    assert.equal(checks, after, 'nobody looks any more')
  })

  it('ends when its caller loses the role that it takes', async () => {
    const { text } = await listen()
    known = () => Promise.resolve({ ...admin, roles: ['User'] })
    await text
    await waitFor('the undo', () => open === 0)
  })

  it('goes on while it cannot be told whether the caller may still read', async () => {
    const { text } = await listen()
    known = () => Promise.reject(new Error('the store is away'))
    await untilChecked(3)
    assert.equal(open, 1)
    known = () => {
      throw unauthenticated()
    }
    await text
    await waitFor('the undo', () => open === 0)
  })
})
