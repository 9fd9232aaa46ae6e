import { identityIn, startNode, type NodeLog, type NodeState, type RunningNode } from '@agent-gateway/sdk/node'
import { setTimeout as sleep } from 'node:timers/promises'
import { platformCommands } from './commands/index.js'
import { Roots } from './roots.js'
import { say, version } from './say.js'
import { SettingsFile, type Settings } from './settings.js'
import type { CommandLine } from './usage.js'

const CRASH_REPORT_LIMIT_MS = 3000
/** What needs a person is told from what a restart may cure. */
const NEEDS_A_PERSON = 3

/** Connects, and does what is asked until it is told to stop. */
export const run = async ({ directory, transport, hubRetryMs }: CommandLine): Promise<number> => {
  const file = new SettingsFile(directory)
  let settings: Settings = await file.load()
  const node = await startNode({
    identity: identityIn(directory),
    stateDir: directory,
    commands: platformCommands(new Roots(() => settings.roots)),
    scopes: settings.scopes,
    version,
    transport,
    log,
    onState: state => say(describe(state)),
    ...(hubRetryMs === undefined ? {} : { timing: { hubRetryMs, maxHubRetryMs: Math.max(hubRetryMs, 300_000) } }),
  })
  const unwatch = file.watch(() => {
    file.load().then(
      changed => {
        settings = changed
        node.setScopes(changed.scopes)
      },
      (error: unknown) => log('error', `${(error as Error).message}; the settings before stay in force`),
    )
  })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void node.stop())
  process.once('uncaughtException', error => void crash(node, error))
  const end = await node.ended
  unwatch()
  if (end === 'stopped') return 0
  say(END[end])
  return NEEDS_A_PERSON
}

const END = {
  revoked: 'revoked: pair this machine anew to use it again',
  unauthenticated: 'the token is not accepted: pair this machine anew, or give it its rotated token',
  replaced: 'another process uses this identity: only one may',
  protocol_unsupported: 'the gateway speaks no version of the protocol that this node knows: install a newer node',
} as const

const describe = (state: NodeState): string => {
  if (state.kind === 'online') return `online over ${state.transport === 'hub' ? 'the hub' : 'polling'}`
  return state.kind === 'offline' ? `offline: ${state.reason}` : 'connecting'
}

const crash = async (node: RunningNode, error: unknown): Promise<never> => {
  log('error', error instanceof Error ? (error.stack ?? error.message) : String(error))
  await Promise.race([node.reportCrash(error).catch(() => undefined), sleep(CRASH_REPORT_LIMIT_MS)])
  process.exit(1)
}

const log: NodeLog = (level, message, fields) => {
  const more = fields === undefined ? '' : ` ${JSON.stringify(fields)}`
  if (level !== 'debug') process.stderr.write(`${new Date().toISOString()} ${level} ${message}${more}\n`)
}
