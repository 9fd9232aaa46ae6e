import { randomBytes } from 'node:crypto'
import { backOffMs, pause } from './backOff.js'
import { GatewayApi, GatewayError, normalizeGatewayUrl } from './gatewayApi.js'
import type { IdentityFile, NodeIdentity } from './identity.js'

/** The gateway's own interval for polls of a pairing. */
const POLL_INTERVAL_MS = 3000
const RETRY = { baseMs: 1000, maxMs: 15_000 }
const NODE_ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/

/** How a node is paired. */
export interface PairOptions {
  /** The gateway's address, with or without `/api`. */
  gatewayUrl: string
  /** 1 to 64 letters, digits, `_` and `-`, the first a letter or digit. */
  nodeId: string
  /** Where the token is kept. A pairing that was interrupted goes on from here. */
  identity: IdentityFile
  /** Shown to whoever approves; default: the id. */
  name?: string
  /** The node software's version. */
  version?: string
  /** Names of the commands that this machine can run. */
  capabilities?: readonly string[]
  /** Called with the code that a person compares, and again with a new one when the request had to be made anew. */
  onCode: (pairingCode: string) => void
  signal?: AbortSignal
  /** Between polls, in milliseconds. Default 3,000. */
  pollIntervalMs?: number
}

/**
 * Pairs a node: asks, waits until a person approves, and stores the token. A request that expires is made anew. Rejects
 * when the pairing is rejected, when the node is paired already, and when `signal` aborts; a gateway that cannot be
 * reached is tried again until then.
 */
export const pairNode = async (options: PairOptions): Promise<NodeIdentity> => {
  const { nodeId, identity, signal = new AbortController().signal, pollIntervalMs = POLL_INTERVAL_MS } = options
  if (!NODE_ID.test(nodeId)) throw new TypeError(`${nodeId} is no node id: 1 to 64 letters, digits, _ and -, the first a letter or digit`)
  const gatewayUrl = normalizeGatewayUrl(options.gatewayUrl)
  const known = await identity.load()
  if (known?.token !== undefined) await checkUnpaired(known.gatewayUrl, known.token, known.nodeId)
  const isSame = known?.nodeId === nodeId && known.gatewayUrl === gatewayUrl
  let secret = (isSame ? known.pairing?.secret : undefined) ?? newSecret()
  const api = new GatewayApi(gatewayUrl, undefined, signal)
  let shown: string | undefined
  const show = (code: unknown): void => {
    if (typeof code !== 'string' || code === shown) return
    shown = code
    options.onCode(code)
  }
  const request = async (): Promise<void> => {
    // Before it is sent: a request whose answer was lost can then be taken up again.
    await identity.save({ nodeId, gatewayUrl, pairing: { secret } })
    show((await patiently(() => api.requestPairing(requestOf(options, secret)), signal)).pairingCode)
  }
  const isResumed = isSame && known.pairing !== undefined
  const refusal = await request().catch((error: unknown) => {
    // Decided or expired since an earlier process asked: the poll tells.
    if (isResumed && isConflict(error)) return error
    throw error
  })
  for (;;) {
    const answer = await patiently(() => api.pollPairing(nodeId, secret), signal).catch((error: unknown) => {
      throw refusal ?? error
    })
    if (answer.status === 'approved' && typeof answer.token === 'string') {
      const paired = { nodeId, gatewayUrl: await reachable(answer.gatewayUrl, gatewayUrl, answer.token), token: answer.token }
      await identity.save(paired)
      return paired
    }
    if (answer.status === 'rejected') {
      await identity.save({ nodeId, gatewayUrl })
      throw new Error(`The pairing of ${nodeId} was rejected`)
    }
    if (answer.status === 'expired') {
      secret = newSecret()
      await request()
      continue
    }
    show(answer.pairingCode)
    await pause(pollIntervalMs, signal)
    signal.throwIfAborted()
  }
}

/** A node that was revoked while it was away still has its old token. */
const checkUnpaired = async (gatewayUrl: string, token: string, nodeId: string): Promise<void> => {
  try {
    await new GatewayApi(gatewayUrl, () => token).me()
  } catch (error) {
    if (error instanceof GatewayError && error.isUnauthenticated) return
    throw new Error(`${nodeId} is paired with ${gatewayUrl}, which cannot be asked whether it still is`, { cause: error })
  }
  throw new Error(`${nodeId} is paired with ${gatewayUrl} already: revoke it there first`)
}

const newSecret = (): string => randomBytes(32).toString('base64url')

const requestOf = ({ nodeId, name, version, capabilities }: PairOptions, pairingSecret: string): Record<string, unknown> => ({
  nodeId,
  pairingSecret,
  platform: process.platform,
  ...(name === undefined ? {} : { name }),
  ...(version === undefined ? {} : { version }),
  ...(capabilities === undefined ? {} : { capabilities }),
})

const isConflict = (error: unknown): error is GatewayError => error instanceof GatewayError && error.code === 'conflict'

/** The address that the gateway gave, where it can be reached from here and is no less safe; else the one that was used. */
const reachable = async (given: unknown, used: string, token: string): Promise<string> => {
  try {
    const url = normalizeGatewayUrl(String(given))
    if (url === used || (used.startsWith('https:') && !url.startsWith('https:'))) return used
    await new GatewayApi(url, () => token).me()
    return url
  } catch {
    return used
  }
}

const patiently = async <T>(call: () => Promise<T>, signal: AbortSignal): Promise<T> => {
  for (let failures = 0; ; failures += 1) {
    signal.throwIfAborted()
    try {
      return await call()
    } catch (error) {
      if (!(error instanceof GatewayError) || !error.isTemporary) throw error
      await pause(error.retryAfterMs ?? backOffMs(failures, RETRY), signal)
    }
  }
}
