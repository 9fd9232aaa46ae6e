import { GatewayApi, identityIn, isAllowedLocally } from '@agent-gateway/sdk/node'
import { mkdir } from 'node:fs/promises'
import { platformCommands } from './commands/index.js'
import { Roots } from './roots.js'
import { say } from './say.js'
import { SettingsFile, type Settings } from './settings.js'
import type { CommandLine } from './usage.js'

/** Tells who this node is and how it stands with its gateway. */
export const status = async ({ directory, isJson }: CommandLine): Promise<number> => {
  const known = await identityIn(directory).load()
  const { scopes, roots } = await new SettingsFile(directory).load()
  const gateway = known?.token === undefined ? undefined : await askGateway(known.gatewayUrl, known.token)
  const state = known === undefined ? 'not paired' : known.token === undefined ? 'not paired any more, or not yet' : 'paired'
  const report = { state, nodeId: known?.nodeId, gatewayUrl: known?.gatewayUrl, gateway, allowedHere: scopes, roots }
  if (isJson) say(JSON.stringify(report, null, 2))
  else {
    const lines = {
      node: known?.nodeId ?? '(none)',
      state,
      gateway: known?.gatewayUrl ?? '(none)',
      answer: gateway?.error ?? (gateway ? 'the token is good' : '(not asked)'),
      granted: gateway?.scopes?.join(', ') ?? '(unknown)',
      'allowed here': scopes.join(', ') || '(nothing)',
      folders: roots.join(', ') || '(none)',
    }
    for (const [name, value] of Object.entries(lines)) say(`${name.padEnd(14)}${value}`)
  }
  return gateway?.error === undefined ? 0 : 1
}

const askGateway = async (gatewayUrl: string, token: string): Promise<{ scopes?: string[]; error?: string }> => {
  try {
    const { scopes } = await new GatewayApi(gatewayUrl, () => token).me()
    return { scopes: Array.isArray(scopes) ? scopes.map(String) : [] }
  } catch (error) {
    return { error: (error as Error).message }
  }
}

/** Changes what this machine allows, where options say so, and lists the commands. A running node takes it up at once. */
export const scopes = async ({ directory, allow, deny, roots }: CommandLine): Promise<number> => {
  const file = new SettingsFile(directory)
  const before = await file.load()
  const settings: Settings = {
    scopes: [...new Set([...before.scopes, ...allow])].filter(scope => !deny.includes(scope)),
    roots: [...new Set([...before.roots, ...roots])],
  }
  const widest = deny.find(scope => isAllowedLocally(scope, settings.scopes))
  if (allow.length + deny.length + roots.length > 0) {
    await mkdir(directory, { recursive: true, mode: 0o700 })
    await file.save(settings)
  }
  if (widest !== undefined) process.stderr.write(`Warning: ${widest} is still allowed, by another entry of the list\n`)
  say(`allowed here: ${settings.scopes.join(', ') || '(nothing)'}`)
  say(`folders: ${settings.roots.join(', ') || '(none)'}`)
  const commands = platformCommands(new Roots(() => settings.roots))
  for (const { name, check } of commands) {
    const state = isAllowedLocally(name, settings.scopes) ? 'allowed' : 'denied '
    say(`  ${name.padEnd(20)}${state}  ${await whyNot(check)}`.trimEnd())
  }
  return 0
}

/** What the machine lacks for the command. */
const whyNot = async (check: (() => unknown) | undefined): Promise<string> => {
  try {
    await check?.()
    return ''
  } catch (error) {
    return `(${(error as Error).message})`
  }
}

/** Stores a rotated token. A running node takes it up at once. */
export const token = async ({ directory }: CommandLine): Promise<number> => {
  const identity = identityIn(directory)
  const known = await identity.load()
  if (!known) throw new Error('This node has never been paired: run pair')
  let text = ''
  for await (const chunk of process.stdin) {
    text += String(chunk)
    if (text.length > 1000) break
  }
  const given = text.trim()
  if (!given.startsWith(`${known.nodeId}.`) || /\s/.test(given)) throw new Error(`This is no token of ${known.nodeId}`)
  await identity.save({ nodeId: known.nodeId, gatewayUrl: known.gatewayUrl, token: given })
  say('stored')
  return 0
}
