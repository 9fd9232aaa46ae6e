import { defineCommand, list, optional, platformUnsupported, string, withDefault } from '@agent-gateway/sdk/node'
import { homedir } from 'node:os'
import { execute, findProgram } from '../execute.js'

/** Runs a program with arguments and waits for it. There is no shell in between: `*`, `|` and `$` are nothing special. */
export const shellRun = defineCommand({
  name: 'shell.run',
  params: {
    program: string({ maxLength: 1000 }),
    args: withDefault(list(string({ minLength: 0, maxLength: 100_000 }), { maxItems: 1000 }), []),
    cwd: optional(string({ maxLength: 4096 })),
    input: optional(string({ minLength: 0, maxLength: 1_000_000 })),
  },
  run: async ({ program, args, cwd = homedir(), input }, { signal }) => {
    const path = await findProgram(program)
    if (path === undefined) throw platformUnsupported(`${program} is not installed on this machine`, program)
    const done = await execute(path, args, { signal, cwd, ...(input === undefined ? {} : { input }) })
    signal.throwIfAborted()
    const { exitCode, signal: endedBy, stdout, stderr, truncated } = done
    return { exitCode, signal: endedBy, stdout: stdout.toString('utf8'), stderr: stderr.toString('utf8'), truncated }
  },
})
