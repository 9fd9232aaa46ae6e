import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MongoClient } from 'mongodb'
import { ADMIN, type Answer } from '../../support/gateway.js'
import { launchGateway, type GatewayProcess } from '../../support/gatewayProcess.js'
import { waitFor } from '../../support/waitFor.js'
import { addScripted, journalOf, TOKEN, type Added, type Noted } from './scripted.js'

const uri = process.env.MONGODB_URI
/** What a gateway that was killed may hold back, in seconds. */
const LEASE_SECONDS = 3

if (uri === undefined) describe('channels of two gateways on one store', () => it('are answered once (skipped: MONGODB_URI is not set)'))
else
  describe('channels of two gateways on one store', function () {
    this.timeout(240_000)
    const vaultKey = randomBytes(32).toString('base64')
    let database = ''
    let directories: string[] = []
    let gateways: GatewayProcess[] = []
    let token = ''

    const start = async (index: number): Promise<GatewayProcess> => {
      const dataDir = directories[index] ?? ''
      const settings = {
        'Service:Plugins:Enabled': 'true',
        'Service:Admin:Password': ADMIN.password,
        'Service:Channels:LeaseSeconds': String(LEASE_SECONDS),
        'Service:Chat:MaxPending': '10000',
      }
      const env = { Service__Store__MongoUri: new URL(`/${database}`, uri).href, Service__Vault__Key: vaultKey }
      const gateway = await launchGateway({ dataDir, settings, env })
      gateways[index] = gateway
      return gateway
    }

    beforeEach(async () => {
      database = `agent-gateway-test-${randomBytes(4).toString('hex')}`
      directories = []
      gateways = []
      for (let i = 0; i < 2; i++) {
        const directory = await mkdtemp(join(tmpdir(), 'cluster-test-'))
        directories.push(directory)
        await addScripted(directory)
      }
      const first = await start(0)
      token = (await first.call('POST', '/auth/login', { body: ADMIN })).body.token as string
    })
    afterEach(async () => {
      await Promise.all(gateways.map(gateway => gateway.stop()))
      for (const directory of directories) await rm(directory, { recursive: true, force: true, maxRetries: 5 })
      const client = await MongoClient.connect(uri)
      await client.db(database).dropDatabase()
      await client.close()
    })

    const call = (index: number, method: string, path: string, body?: unknown): Promise<Answer> =>
      gateways[index]!.call(method, path, { token, ...(body === undefined ? {} : { body }) })

    const status = async (index: number, id: string): Promise<unknown> => (await call(index, 'GET', `/channels/${id}`)).body.status

    const addChannel = async (settings: Record<string, string> = {}): Promise<Added> => {
      const added = await waitFor('the channel type', async () => {
        const answer = await call(0, 'POST', '/channels', { type: 'scripted', name: 'shared', settings: { token: TOKEN, ...settings } })
        return answer.status === 201 ? (answer.body as Added) : undefined
      })
      await waitFor('the connection', async () => (await status(0, added.id)) === 'connected')
      return added
    }

    const ready = (index: number): Promise<unknown> =>
      waitFor('the plugin of the other gateway', async () => (await call(index, 'GET', '/plugins/scripted')).body.state === 'ready')

    /** To the webhook's path on one of the gateways, as a load balancer would. */
    const post = async (index: number, { webhookUrl }: Added, id: string): Promise<number | undefined> => {
      const url = new URL(new URL(webhookUrl).pathname, gateways[index]!.url)
      const body = JSON.stringify({ id, chatId: id.split('-')[0], text: '/help' })
      return fetch(url, { method: 'POST', body }).then(
        answer => answer.status,
        () => undefined,
      )
    }

    const noted = async (method: string, index?: number): Promise<Noted[]> => {
      const chosen = index === undefined ? directories : [directories[index] ?? '']
      return (await Promise.all(chosen.map(directory => journalOf(directory)))).flat().filter(entry => entry.method === method)
    }
    /** Deliveries by message: one each, though a platform may be handed a delivery again under its id. */
    const replies = async (): Promise<Map<string, Set<string>>> => {
      const found = new Map<string, Set<string>>()
      for (const { messageId, deliveryId } of await noted('sent')) found.set(messageId, (found.get(messageId) ?? new Set()).add(deliveryId))
      return found
    }
    const answeredOnce = async (ids: string[]): Promise<void> => {
      const all = await waitFor(
        `${String(ids.length)} replies`,
        async () => {
          const found = await replies()
          return ids.every(id => found.has(id)) ? found : undefined
        },
        // A reply that the killed gateway was handing over is taken up 45 s later, with what waits behind it.
        90_000,
      )
      for (const id of ids) assert.equal(all.get(id)?.size, 1, id)
      assert.equal(all.size, ids.length)
    }

    it('are held by one of them, and each message is answered once, whichever it reaches', async () => {
      const channel = await addChannel()
      await start(1)
      await ready(1)
      const ids = Array.from({ length: 20 }, (_, i) => `${String(i % 4)}-${String(i)}`)
      const statuses = await Promise.all(ids.map((id, i) => post(i % 2, channel, id)))
      assert.deepEqual([...new Set(statuses)], [202])
      await answeredOnce(ids)
      assert.equal((await noted('connect')).length, 1)
      assert.equal((await noted('sent', 1)).length, 0)
      assert.deepEqual([await status(0, channel.id), await status(1, channel.id)], ['connected', 'connected'])
    })

    it('go on at the other when their gateway is killed, and nothing acknowledged is lost', async () => {
      const channel = await addChannel()
      await start(1)
      await ready(1)
      const acknowledged: string[] = []
      let streaming = true
      const stream = async (sender: number): Promise<void> => {
        for (let n = 0; streaming; n++) {
          const id = `${String(sender)}-${String(n)}`
          // A platform sends again what was not acknowledged, here to the other gateway, until it is: it may be kept already.
          let to = sender % 2
          await waitFor(`${id} to be taken`, async () => {
            const isTaken = (await post(to, channel, id)) === 202
            to = 1
            return isTaken
          })
          acknowledged.push(id)
          await new Promise(resolve => setTimeout(resolve, 250))
        }
      }
      const senders = [0, 1, 2, 3].map(stream)
      await waitFor('replies', async () => (await replies()).size >= 4)
      gateways[0]!.kill('SIGKILL')
      await gateways[0]!.exited
      await waitFor('the take-over', async () => (await noted('connect', 1)).length > 0, 60_000)
      streaming = false
      await Promise.all(senders)
      await answeredOnce(acknowledged)
      assert.equal(await status(1, channel.id), 'connected')
    })

    it('follow a change, and a deletion, that is made at the other', async () => {
      const channel = await addChannel({ info: 'before' })
      await start(1)
      await ready(1)
      assert.equal((await call(1, 'PATCH', `/channels/${channel.id}`, { settings: { info: 'after' } })).status, 200)
      await waitFor('the new settings', async () => (await noted('connect', 0)).some(({ settings }) => settings.info === 'after'))
      await waitFor('what the adapter says', async () => (await call(1, 'GET', `/channels/${channel.id}`)).body.info === 'after')
      assert.equal((await call(1, 'PATCH', `/channels/${channel.id}`, { enabled: false })).status, 200)
      await waitFor('the end of the connection', async () => (await noted('disconnect', 0)).length === 2)
      assert.equal((await call(1, 'PATCH', `/channels/${channel.id}`, { enabled: true })).status, 200)
      await waitFor('the connection', async () => (await status(1, channel.id)) === 'connected')
      assert.equal((await call(1, 'DELETE', `/channels/${channel.id}`)).status, 204)
      await waitFor('the end of every connection', async () => (await noted('disconnect')).length === (await noted('connect')).length)
      assert.equal((await call(0, 'GET', `/channels/${channel.id}`)).status, 404)
    })

    it('go over at once when their gateway stops in order', async () => {
      const channel = await addChannel()
      await start(1)
      await ready(1)
      assert.equal(await gateways[0]!.stop(), 0)
      await waitFor('the take-over', async () => (await status(1, channel.id)) === 'connected')
      assert.equal((await noted('connect', 1))[0]?.cursor, 'left by 1.0.0')
      assert.equal(await post(1, channel, '1-1'), 202)
      await answeredOnce(['1-1'])
    })
  })
