import { boolean, defineCommand, integer, invalidParams, list, platformUnsupported, string, withDefault } from '@agent-gateway/sdk/node'
import { setTimeout as sleep } from 'node:timers/promises'
import { findProgram, launch, signalGroup } from '../execute.js'
import { listWindows } from '../windows.js'

/** Programs that are remembered as started here; beyond it the oldest are forgotten. */
const MAX_STARTED = 500
const CLOSE_LIMIT_MS = 5000

const started = new Set<number>()

/** Starts a program, without a shell, and does not wait for it. */
export const appLaunch = defineCommand({
  name: 'app.launch',
  params: { program: string({ maxLength: 1000 }), args: withDefault(list(string({ minLength: 0 })), []) },
  run: async ({ program, args }) => {
    const path = await findProgram(program)
    if (path === undefined) throw platformUnsupported(`${program} is not installed on this machine`, program)
    const child = await launch(path, args)
    started.add(child.pid)
    child.once('exit', () => started.delete(child.pid))
    for (const pid of started) if (started.size > MAX_STARTED) started.delete(pid)
    return { pid: child.pid, program: path }
  },
})

/** Ends a program that was started here or has a window. */
export const appClose = defineCommand({
  name: 'app.close',
  params: { pid: integer({ min: 2 }), force: withDefault(boolean(), false) },
  run: async ({ pid, force }, { signal }) => {
    const wasStarted = started.has(pid)
    if (!wasStarted && !(await hasWindow(pid, signal)))
      throw invalidParams('pid', `${pid} is no program that this node started or that has a window`)
    const kind = force ? 'SIGKILL' : 'SIGTERM'
    if (wasStarted) signalGroup(pid, kind)
    else process.kill(pid, kind)
    for (const deadline = Date.now() + CLOSE_LIMIT_MS; isAlive(pid) && Date.now() < deadline && !signal.aborted;) await sleep(50)
    return { pid, isClosed: !isAlive(pid) }
  },
})

const hasWindow = async (pid: number, signal: AbortSignal): Promise<boolean> =>
  (await listWindows(signal)).some(window => window.pid === pid)

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}
