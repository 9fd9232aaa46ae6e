import type { Field, ParamsOf } from './fields.js'
import type { CommandOrigin } from './protocol.js'

/** What a command is run with, beside its parameters. */
export interface CommandContext {
  /** The gateway's id of the command. */
  readonly commandId: string
  /** Aborted when the time is over, the command is cancelled, its scope revoked, or the node stops: end what runs. */
  readonly signal: AbortSignal
  /** On whose behalf. */
  readonly originatedBy: CommandOrigin
  /** Says how far it is; the newest is sent, at most once a second. */
  progress(progress: { percent?: number; message?: string }): void
}

/** A command that a node can run. */
export interface NodeCommand<F extends object> {
  /** `family.name`, which is its scope too: `screen.capture`. */
  readonly name: string
  /** A `Field` for each parameter, by name; others are ignored. */
  readonly params: F
  /**
   * Commands of the same lane run one after the other, in the order in which they came; without one they run side by side.
   */
  readonly lane?: string
  /**
   * Running it again does no harm: it changes nothing. When the node dies while such a command runs, it runs once more;
   * any other one is then reported as interrupted.
   */
  readonly repeatable?: boolean
  /**
   * Throws, or rejects with, a `CommandError` of `platform_unsupported` when this machine cannot do it; what it returns does
   * not matter. It is asked before every run.
   */
  readonly check?: () => unknown
  /** Resolves with the result: JSON, at most 12 MiB. Throw a `CommandError` to choose the code. */
  readonly run: (params: ParamsOf<F>, context: CommandContext) => Promise<Record<string, unknown> | undefined>
}

/** Any command, whatever its parameters are. */
export type AnyCommand = Omit<NodeCommand<object>, 'params' | 'run'> & {
  readonly params: Readonly<Record<string, Field<unknown>>>
  readonly run: (params: never, context: CommandContext) => Promise<Record<string, unknown> | undefined>
}

const NAME = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+$/

/** Defines a command; its `run` is typed by its `params`. Throws when the name is not written `family.name`. */
export const defineCommand = <F extends object>(command: NodeCommand<F>): NodeCommand<F> => {
  if (!NAME.test(command.name)) throw new TypeError(`A command is written family.name, for example screen.capture, not ${command.name}`)
  return command
}

/** The names of the commands that this machine can run: those whose `check` passes. */
export const capabilitiesOf = async (commands: readonly AnyCommand[]): Promise<string[]> => {
  const names = await Promise.all(
    commands.map(async ({ name, check }) => {
      try {
        await check?.()
        return [name]
      } catch {
        return []
      }
    }),
  )
  return names.flat()
}
