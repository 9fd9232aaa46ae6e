import { pair } from './pair.js'
import { run } from './run.js'
import { say } from './say.js'
import { scopes, status, token } from './show.js'
import { readCommandLine, USAGE, UsageError, type CommandLine } from './usage.js'

const COMMANDS: Readonly<Record<string, (line: CommandLine) => Promise<number>>> = { pair, run, status, scopes, token }

const main = async (): Promise<number> => {
  const line = readCommandLine(process.argv.slice(2))
  if (line) return (await COMMANDS[line.command]?.(line)) ?? 2
  say(USAGE)
  return 0
}

main().then(
  code => {
    process.exitCode = code
  },
  (error: unknown) => {
    process.stderr.write(`${(error as Error).message}\n${error instanceof UsageError ? `\n${USAGE}\n` : ''}`)
    process.exitCode = error instanceof UsageError ? 2 : 1
  },
)
