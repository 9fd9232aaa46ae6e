import { fork, type ChildProcess } from 'node:child_process'
import { existsSync } from 'node:fs'

/** A program of the bench in a process of its own, which does what it is asked. */
export interface Program<Tasks extends TaskList> {
  pid: number
  ask<N extends keyof Tasks & string>(task: N, input: Parameters<Tasks[N]>[0]): Promise<Awaited<ReturnType<Tasks[N]>>>
  stop(): Promise<void>
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- each program has tasks of its own shapes
export type TaskList = Record<string, (input: any) => unknown>

/** A program that has not ended by then is killed. */
const STOP_LIMIT_MS = 5000

interface Question {
  id: number
  task: string
  input: unknown
}

interface Answer {
  id: number
  result?: unknown
  error?: string
}

/** For a program: answers the questions of the process that started it, and ends with it. */
export const answerTasks = (tasks: TaskList): void => {
  process.on('message', ({ id, task, input }: Question) => {
    const reply = (answer: Omit<Answer, 'id'>): void => void process.send?.({ id, ...answer })
    Promise.resolve()
      .then(() => tasks[task]?.(input))
      .then(
        result => {
          reply({ result })
        },
        (error: unknown) => {
          reply({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) })
        },
      )
  })
  process.once('disconnect', () => process.exit())
}

interface ForkOptions {
  /** The processor that it keeps to, where that can be done. Default: none. */
  core?: number
  execArgv?: string[]
  args?: string[]
}

export const startProgram = <Tasks extends TaskList>(
  file: string,
  { core, execArgv = [], args = [] }: ForkOptions = {},
): Program<Tasks> => {
  const taskset = '/usr/bin/taskset'
  const options = { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] as ('ignore' | 'inherit' | 'ipc')[] }
  const child =
    core !== undefined && existsSync(taskset)
      ? fork('-c', [String(core), process.execPath, ...execArgv, file, ...args], { ...options, execPath: taskset, execArgv: [] })
      : fork(file, args, { ...options, execArgv })
  const waiting = new Map<number, { resolve: (result: never) => void; reject: (error: Error) => void }>()
  let lastId = 0
  child.on('message', ({ id, result, error }: Answer) => {
    const asked = waiting.get(id)
    waiting.delete(id)
    if (error === undefined) asked?.resolve(result as never)
    else asked?.reject(new Error(error))
  })
  const ended = new Promise<void>(resolve => {
    child.once('exit', code => {
      for (const { reject } of waiting.values()) reject(new Error(`${file} ended with code ${code ?? 'none'}`))
      resolve()
    })
  })
  return { pid: child.pid ?? 0, ask: (task, input) => askOf(child, waiting, ++lastId, task, input), stop: () => stop(child, ended) }
}

const askOf = <R>(
  child: ChildProcess,
  waiting: Map<number, { resolve: (result: never) => void; reject: (error: Error) => void }>,
  id: number,
  task: string,
  input: unknown,
): Promise<R> =>
  new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject })
    child.send({ id, task, input } satisfies Question)
  })

const stop = async (child: ChildProcess, ended: Promise<void>): Promise<void> => {
  if (child.connected) child.disconnect()
  const late = setTimeout(() => child.kill('SIGKILL'), STOP_LIMIT_MS)
  await ended
  clearTimeout(late)
}
