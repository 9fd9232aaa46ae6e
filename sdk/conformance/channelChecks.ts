import { readFile } from 'node:fs/promises'
import { RpcErrorCode, type WebhookRequest, type WebhookResult } from '../protocol.js'
import { brief, expect, Failure, Skip, type Bench, type Check } from './check.js'
import { callOf, NO_CHANNEL } from './kinds.js'
import { cancelSome } from './messageChecks.js'
import type { Answer, Wire } from './wire.js'

const PARALLEL = 32
const webhookUrl = (channelId: string): string => `http://127.0.0.1/api/webhooks/receive/${channelId}`
/** The codes of a platform that says no, or not now. */
const FORESEEN: readonly unknown[] = [RpcErrorCode.rejected, RpcErrorCode.temporary, RpcErrorCode.busy]

async function connect(bench: Bench, wire: Wire, channelId: string, more: object = {}): Promise<Record<string, unknown>> {
  if (bench.missingSettings.length > 0) throw new Skip(`the settings ${bench.missingSettings.join(', ')} need values: --settings FILE.json`)
  return wire.result(
    'channel.connect',
    { channelId, settings: bench.settings, webhookUrl: webhookUrl(channelId), ...more },
    { timeoutMs: 30_000 },
  )
}

/** An answer, or a failure that the protocol foresees; anything else is a mistake of the program. */
function mustBeForeseen({ error }: Answer, what: string): void {
  expect(error === undefined || FORESEEN.includes(error.code), `${what} failed with ${brief(error?.code)} (${brief(error?.message)})`)
}

const request = (given: Partial<WebhookRequest>): WebhookRequest => ({
  ...{ method: 'POST', query: {}, headers: {}, body: '', bodyEncoding: 'utf8', receivedAt: new Date().toISOString() },
  ...given,
})

const deliver = (wire: Wire, channelId: string, deliveryId: string, given: WebhookRequest): Promise<Answer> =>
  wire.ask('channel.webhook', { channelId, deliveryId, request: given }, { timeoutMs: 30_000 })

/** The sample: a file of JSON with a webhook's request, or what differs from an empty POST. */
async function sampleRequest({ sample }: Bench): Promise<WebhookRequest> {
  if (sample === undefined) throw new Skip('give a webhook of the platform: --sample FILE.json, {"headers": {...}, "body": "..."}')
  let given: unknown
  try {
    given = JSON.parse(await readFile(sample, 'utf8'))
  } catch (error) {
    throw new Failure(`the sample ${sample} is no JSON: ${(error as Error).message}`)
  }
  const { body, headers = {}, ...rest } = given as Omit<Partial<WebhookRequest>, 'body'> & { body?: unknown }
  const text = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body)
  return request({
    ...rest,
    headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])),
    body: text,
  })
}

async function messagesOf(bench: Bench, wire: Wire, channelId: string, deliveryId: string): Promise<string[]> {
  const { result, error } = await deliver(wire, channelId, deliveryId, await sampleRequest(bench))
  expect(error === undefined, `the sample was refused: ${brief(error)}`)
  const { response, messages = [] } = (result ?? {}) as WebhookResult
  expect((response?.status ?? 200) < 400, `the sample was answered with the status ${response?.status ?? 200}: ${brief(response?.body)}`)
  expect(messages.length > 0, 'no message was found in the sample')
  const key = bench.manifest.recipientMetadataKey ?? 'chatId'
  for (const { id, metadata } of messages)
    expect(metadata[key] !== undefined, `the message ${brief(id)} has no metadata.${key}, so a reply would have no address`)
  return messages.map(({ id }) => id)
}

const reply = (bench: Bench, channelId: string, deliveryId: string): object => ({
  ...callOf(bench.manifest)?.params,
  channelId,
  deliveryId,
})

/** What a channel adapter has to do. */
export const channelChecks: readonly Check[] = [
  {
    name: 'channel/connect',
    expected: 'connects a channel, and again with new settings',
    run: async bench => {
      const wire = await bench.ready()
      await connect(bench, wire, 'chn_a')
      await connect(bench, wire, 'chn_a')
    },
  },
  {
    name: 'channel/test',
    expected: 'tries settings and says whether they work',
    run: async bench => {
      const wire = await bench.ready()
      const params = { channelId: 'chn_test', settings: bench.settings, webhookUrl: webhookUrl('chn_test') }
      mustBeForeseen(await wire.ask('channel.test', params, { timeoutMs: 30_000 }), 'channel.test')
    },
  },
  {
    name: 'channel/not-connected',
    expected: 'answers what is for a channel that is not connected with temporary (-32005)',
    run: async bench => {
      const wire = await bench.ready()
      await wire.refusal('channel.send', reply(bench, NO_CHANNEL, 'snd_1'), [RpcErrorCode.temporary])
      await wire.refusal('channel.webhook', { channelId: NO_CHANNEL, deliveryId: 'dlv_1', request: request({}) }, [RpcErrorCode.temporary])
    },
  },
  {
    name: 'channel/webhook-sample',
    expected: 'finds messages in the sample, each with the address of a reply, and the same ones when it comes again',
    run: async bench => {
      const wire = await bench.ready()
      await connect(bench, wire, 'chn_b')
      const ids = await messagesOf(bench, wire, 'chn_b', 'dlv_2')
      const again = await messagesOf(bench, wire, 'chn_b', 'dlv_2')
      expect(ids.join() === again.join(), `the same delivery gave the messages ${brief(ids)}, then ${brief(again)}`)
    },
  },
  {
    name: 'channel/webhook-stray',
    expected: 'answers webhooks that are none of the platform, without a mistake of its own',
    run: async bench => {
      const wire = await bench.ready()
      await connect(bench, wire, 'chn_c')
      const odd: [string, Partial<WebhookRequest>][] = [
        ['an empty POST', {}],
        ['a GET', { method: 'GET', query: { probe: '1' } }],
        ['a body that is no JSON', { body: 'hello', headers: { 'content-type': 'application/json' } }],
        ['a body of bytes', { body: Buffer.from([0, 255, 128]).toString('base64'), bodyEncoding: 'base64' }],
      ]
      for (const [index, [what, given]] of odd.entries()) mustBeForeseen(await deliver(wire, 'chn_c', `odd_${index}`, request(given)), what)
      await wire.mustBeAlive('stray webhooks')
    },
  },
  {
    name: 'channel/parallel',
    expected: `answers ${PARALLEL} webhooks at once, and pings meanwhile`,
    run: async bench => {
      const wire = await bench.ready()
      await connect(bench, wire, 'chn_d')
      const asked = Array.from({ length: PARALLEL }, (_, index) => deliver(wire, 'chn_d', `par_${index}`, request({})))
      const [answers] = await Promise.all([Promise.all(asked), wire.mustBeAlive(`${PARALLEL} webhooks`)])
      for (const answer of answers) mustBeForeseen(answer, 'a webhook')
    },
  },
  {
    name: 'channel/send',
    expected: 'delivers a reply, or says that the platform refuses it (rejected) or is not there (temporary)',
    run: async bench => {
      const wire = await bench.ready()
      await connect(bench, wire, 'chn_e')
      mustBeForeseen(await wire.ask('channel.send', reply(bench, 'chn_e', 'snd_2'), { timeoutMs: 30_000 }), 'channel.send')
    },
  },
  {
    name: 'channel/cancel',
    expected: 'lives through replies that are given up',
    run: async bench => {
      const wire = await bench.ready()
      await connect(bench, wire, 'chn_f')
      await cancelSome(wire, 'channel.send', index => Promise.resolve(reply(bench, 'chn_f', `gone_${index}`)))
    },
  },
  {
    name: 'channel/disconnect',
    expected: 'disconnects a channel and no other, takes it again with its cursor, and takes a second disconnect for done',
    run: async bench => {
      const wire = await bench.ready()
      await connect(bench, wire, 'chn_g')
      await connect(bench, wire, 'chn_h')
      const { cursor } = await wire.result('channel.disconnect', { channelId: 'chn_g' })
      await wire.result('channel.disconnect', { channelId: 'chn_g' })
      await wire.refusal('channel.send', reply(bench, 'chn_g', 'snd_3'), [RpcErrorCode.temporary])
      const { error } = await deliver(wire, 'chn_h', 'dlv_3', request({}))
      expect(error?.code !== RpcErrorCode.temporary, `the other channel went too: ${brief(error)}`)
      await connect(bench, wire, 'chn_g', cursor === undefined ? {} : { cursor })
    },
  },
]
