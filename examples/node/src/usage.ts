import { parseArgs } from 'node:util'
import { resolve } from 'node:path'
import { defaultDirectory } from './settings.js'

export const USAGE = `Usage: agent-gateway-node <command> [options]

  pair <gateway address>   ask to be paired, show the code, wait for the approval
      --id <name>          the node's id (default: the name of the machine)
      --label <text>       what people see beside it
      --allow <scopes>     what this machine allows, comma-separated (see scopes)
      --root <folder>      a folder that file.* may reach; may be given again
  run                      connect and do what is asked, until Ctrl+C
      --transport <how>    auto (default), hub or polling
      --hub-retry <s>      while polling, try the hub again after so many seconds (default 30)
  status                   who this node is, and what the gateway says
      --json               as JSON
  scopes                   what this machine allows, and what it is able to do
      --allow <scopes>     allow more: names such as screen.capture, families such as
                           window.*, input.control, app.manage, or * for everything
      --deny <scopes>      allow less
      --root <folder>      share a folder too; may be given again
  token                    take up a rotated token, read from standard input

  --dir <folder>           where the node keeps its identity and settings
                           (default: ${defaultDirectory()})`

/** A command line that cannot be followed. */
export class UsageError extends Error {}

const OPTIONS = {
  dir: { type: 'string' },
  id: { type: 'string' },
  label: { type: 'string' },
  allow: { type: 'string', multiple: true },
  deny: { type: 'string', multiple: true },
  root: { type: 'string', multiple: true },
  transport: { type: 'string' },
  'hub-retry': { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const

const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  pair: ['dir', 'id', 'label', 'allow', 'root'],
  run: ['dir', 'transport', 'hub-retry'],
  status: ['dir', 'json'],
  scopes: ['dir', 'allow', 'deny', 'root'],
  token: ['dir'],
}

/** A command line, read. */
export interface CommandLine {
  command: string
  /** The rest of what is no option. */
  operands: string[]
  directory: string
  id: string | undefined
  label: string | undefined
  allow: string[]
  deny: string[]
  roots: string[]
  transport: 'auto' | 'hub' | 'polling'
  hubRetryMs: number | undefined
  isJson: boolean
}

/** `undefined`: help is wanted. Throws a `UsageError`. */
export const readCommandLine = (args: string[]): CommandLine | undefined => {
  const { values, positionals } = parse(args)
  const [command, ...operands] = positionals
  if (values.help === true || command === undefined || command === 'help') return undefined
  const allowed = ALLOWED[command]
  if (!allowed) throw new UsageError(`There is no command ${command}`)
  for (const name of Object.keys(values)) if (!allowed.includes(name)) throw new UsageError(`${command} has no option --${name}`)
  if (operands.length !== (command === 'pair' ? 1 : 0))
    throw new UsageError(command === 'pair' ? 'pair needs the address of the gateway' : `${command} takes no ${operands[0]}`)
  const { transport = 'auto', 'hub-retry': hubRetry } = values
  if (transport !== 'auto' && transport !== 'hub' && transport !== 'polling') throw new UsageError('--transport is auto, hub or polling')
  return {
    command,
    operands,
    directory: resolve(values.dir ?? defaultDirectory()),
    id: values.id,
    label: values.label,
    allow: scopesIn(values.allow),
    deny: scopesIn(values.deny),
    roots: (values.root ?? []).map(folder => resolve(folder)),
    transport,
    hubRetryMs: hubRetry === undefined ? undefined : seconds(hubRetry),
    isJson: values.json === true,
  }
}

const parse = (args: string[]) => {
  try {
    return parseArgs({ args, options: OPTIONS, allowPositionals: true })
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}

const SCOPE = /^(\*|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(\.\*)?)$/

const scopesIn = (given: string[] = []): string[] => {
  const scopes = given.flatMap(text => text.split(',')).map(scope => scope.trim())
  const wrong = scopes.find(scope => !SCOPE.test(scope))
  if (wrong !== undefined) throw new UsageError(`${wrong} is no scope: write screen.capture, window.* or *`)
  return scopes
}

const seconds = (text: string): number => {
  const value = Number(text)
  if (!(value > 0 && value <= 86_400)) throw new UsageError('--hub-retry is a number of seconds')
  return value * 1000
}
