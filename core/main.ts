import { parseArgs } from 'node:util'
import { join, resolve } from 'node:path'
import { createApp } from './app.js'
import { Config } from './config.js'
import { ConfigError } from './configLayers.js'
import { watchConfig } from './configWatch.js'
import { StartError } from './errors.js'
import { createLog } from './log.js'
import { coreSettings } from './settings.js'
import { explainStart } from './startFailure.js'
import { areas, plugins } from '../plugins/index.js'

const USAGE = `usage: agent-gateway [--config FILE] [--default KEY=VALUE]... [reset-password EMAIL]

  --config FILE         the configuration file (default: $SERVICE_CONFIG, else service.json in the data directory)
  --default KEY=VALUE   the lowest layer of configuration, for example Service:Plugins:Enabled=true
  reset-password EMAIL  gives the user a new random password, prints it, and ends the user's sessions; the gateway may run or not
`

/** How long a stop may take before the process ends itself, in milliseconds. */
const STOP_DEADLINE_MS = 60_000

const main = async (): Promise<void> => {
  const { config: configFile, default: defaultPairs = [], help, command } = readArguments()
  if (help) {
    process.stdout.write(USAGE)
    return
  }
  const defaults = Object.fromEntries(defaultPairs.map(splitPair))
  const config = new Config({ file: configFile ?? process.env.SERVICE_CONFIG ?? defaultConfigFile(defaults), defaults, env: process.env })
  if (command) {
    await resetPassword(config.bind(coreSettings.dataDir).get(), command.email)
    return
  }
  const log = createLog({ level: 'info' })
  const level = config.bind(coreSettings.logLevel)
  log.level = level.get()
  level.onChange(value => (log.level = value))
  process.on('uncaughtException', error => {
    log.fatal({ err: error }, 'an error that nothing handled: ending, so that nothing goes on in an unknown state')
    process.exit(1)
  })
  const app = createApp(plugins, { config, log, areas })
  const stop = stopOnSignals(async () => {
    unwatch()
    await app.stop()
  }, log)
  let unwatch = (): void => undefined
  const { url } = await app.start()
  // Only now: every plugin has said which values are secret, so that the log leaves them out.
  for (const [key, value] of Object.entries(defaults)) log.info(`default ${key} = ${value}`)
  if (stop.requested) return
  unwatch = watchConfig(config, log)
  process.stdout.write(`listening on ${url}\n`)
}

interface Arguments {
  config?: string
  default?: string[]
  help?: boolean
  command?: { email: string }
}

const readArguments = (): Arguments => {
  try {
    const { values, positionals } = parseArgs({
      options: { config: { type: 'string' }, default: { type: 'string', multiple: true }, help: { type: 'boolean', short: 'h' } },
      allowPositionals: true,
    })
    const [name, email, ...rest] = positionals
    if (name === undefined) return values
    if (name !== 'reset-password' || email === undefined || rest.length > 0) throw new Error(`${positionals.join(' ')} is no command`)
    return { ...values, command: { email } }
  } catch (error) {
    throw new StartError(`${(error as Error).message}\n${USAGE}`, { cause: error })
  }
}

const resetPassword = async (dataDir: string, email: string): Promise<void> => {
  const { askForReset } = await import('../plugins/identity/passwordResets.js')
  const result = await askForReset(dataDir, email).catch((error: unknown) => error as Error)
  if (result instanceof Error) {
    process.stderr.write(`The password of ${email} was not reset: ${result.message}\n`)
    process.exitCode = 1
    return
  }
  const { password, applied } = result
  const when = applied
    ? 'It is in force, and the sessions of before are ended.'
    : `No gateway runs on ${dataDir}: it comes into force at the next start, if that is within an hour.`
  process.stdout.write(`The new password of ${email} is ${password}\n${when} It is shown only this once.\n`)
}

const splitPair = (pair: string): [string, string] => {
  const at = pair.indexOf('=')
  if (at < 1) throw new ConfigError(`--default ${pair}: write KEY=VALUE, for example Service:Port=8081`)
  return [pair.slice(0, at), pair.slice(at + 1)]
}

/** The data directory decides where the file is, so it can come from the layers beside the file only. */
const defaultConfigFile = (defaults: Record<string, string>): string => {
  const beside = new Config({ file: join(resolve('.'), 'no-such-directory', 'service.json'), defaults, env: process.env })
  return join(beside.bind(coreSettings.dataDir).get(), 'service.json')
}

/** A second signal within this time, in milliseconds, is the first one again: npm passes on what its whole process group has got. */
const SAME_SIGNAL_MS = 500

/** The first SIGTERM or SIGINT stops gracefully; another one ends the process at once. */
const stopOnSignals = (stop: () => Promise<void>, log: ReturnType<typeof createLog>): { requested: boolean } => {
  const state = { requested: false }
  let firstAt = 0
  const onSignal = (signal: NodeJS.Signals): void => {
    if (state.requested) {
      if (performance.now() - firstAt < SAME_SIGNAL_MS) return
      log.warn(`${signal} again: ending now`)
      process.exit(1)
    }
    state.requested = true
    firstAt = performance.now()
    log.info(`${signal}: stopping`)
    setTimeout(() => {
      log.error(`the stop took more than ${STOP_DEADLINE_MS / 1000} s: ending now`)
      process.exit(1)
    }, STOP_DEADLINE_MS).unref()
    stop().then(
      () => process.exit(0),
      (error: unknown) => {
        log.error({ err: error }, 'the stop failed')
        process.exit(1)
      },
    )
  }
  process.on('SIGTERM', onSignal).on('SIGINT', onSignal)
  return state
}

main().catch((error: unknown) => {
  process.stderr.write(`agent-gateway could not start. ${explainStart(error)}\n`)
  process.exit(1)
})
