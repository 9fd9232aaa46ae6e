import { capabilitiesOf, identityIn, normalizeGatewayUrl, pairNode } from '@agent-gateway/sdk/node'
import { hostname } from 'node:os'
import { platformCommands } from './commands/index.js'
import { Roots } from './roots.js'
import { SettingsFile } from './settings.js'
import { say, version } from './say.js'
import type { CommandLine } from './usage.js'

/** Asks the gateway to be paired, and waits until a person has approved it. */
export const pair = async ({ operands, directory, id, label, allow, roots }: CommandLine): Promise<number> => {
  const gatewayUrl = normalizeGatewayUrl(operands[0] ?? '')
  warnOfPlainHttp(gatewayUrl)
  const file = new SettingsFile(directory)
  const settings = await file.load()
  await file.save({
    scopes: allow.length > 0 ? allow : settings.scopes,
    roots: roots.length > 0 ? roots : settings.roots,
  })
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => stop.abort(new Error('Interrupted: run pair again to go on')))
  const nodeId = id ?? nameOfMachine()
  const { gatewayUrl: used } = await pairNode({
    gatewayUrl,
    nodeId,
    identity: identityIn(directory),
    version,
    capabilities: await capabilitiesOf(platformCommands(new Roots(() => []))),
    ...(label === undefined ? {} : { name: label }),
    onCode: code => {
      say(`pairing code: ${code}`)
      say(`Approve ${nodeId} at the gateway when it shows the same code, with the scopes that it may use. Waiting ...`)
    },
    signal: stop.signal,
  })
  say(`paired: ${nodeId} with ${used}`)
  say('Next: agent-gateway-node run')
  return 0
}

/** As much of the machine's name as an id may hold. */
const nameOfMachine = (): string =>
  hostname()
    .replace(/[^A-Za-z0-9_-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, 64) || 'node'

const warnOfPlainHttp = (gatewayUrl: string): void => {
  const { protocol, hostname: host } = new URL(gatewayUrl)
  if (protocol === 'http:' && !['localhost', '127.0.0.1', '[::1]'].includes(host))
    process.stderr.write('Warning: over plain http everyone on the way can read the token; use https outside a trusted network\n')
}
