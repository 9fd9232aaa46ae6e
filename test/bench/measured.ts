import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync } from 'node:fs'

/** Pins a command to one processor where that can be done, so that server and client do not disturb each other. */
export const pinned = (core: number, command: string[]): string[] =>
  existsSync('/usr/bin/taskset') ? ['/usr/bin/taskset', '-c', String(core), ...command] : command

export interface Server {
  url: string
  process: ChildProcess
}

/** Starts a server that prints `listening on URL`. */
export const startServer = async (command: string[], env: NodeJS.ProcessEnv = process.env): Promise<Server> => {
  const [program = '', ...args] = command
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'], env })
  return new Promise((resolve, reject) => {
    let output = ''
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString()
      const url = /listening on (\S+)/.exec(output)?.[1]
      if (url !== undefined) resolve({ url, process: child })
    })
    child.once('exit', code => {
      reject(new Error(`${command.join(' ')} ended with code ${String(code)}`))
    })
  })
}

export const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0

/** One line of the table: what, the figure, the bare peer's, their ratio and the goal. */
export const row = (what: string, figure: string, peer: string, ratio: number, goal: string): void => {
  process.stdout.write(`${what.padEnd(52)} ${figure.padStart(12)} ${peer.padStart(12)} ${ratio.toFixed(2).padStart(7)}   ${goal}\n`)
}
