import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { waitFor } from '../../support/waitFor.js'

export const isInstalled = (tool: string): boolean =>
  (process.env.PATH ?? '').split(delimiter).some(folder => {
    try {
      accessSync(join(folder, tool), constants.X_OK)
      return true
    } catch {
      return false
    }
  })

/** Those of the tools that this machine lacks. */
export const missing = (...tools: string[]): string[] => tools.filter(tool => !isInstalled(tool))

/** An X server without a screen, with a window manager. */
export class Desktop {
  display = ''
  readonly #children: ChildProcess[] = []

  async start(): Promise<void> {
    // It picks a free display and prints its number.
    const server = this.spawn('Xvfb', ['-displayfd', '1', '-screen', '0', '800x600x24', '-nolisten', 'tcp'])
    let printed = ''
    server.stdout?.on('data', (chunk: Buffer) => (printed += chunk.toString()))
    await waitFor('Xvfb', () => /\d+\n/.test(printed))
    this.display = `:${printed.trim()}`
    if (isInstalled('openbox')) this.spawn('openbox', [])
  }

  get env(): Record<string, string> {
    return { DISPLAY: this.display, PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '/' }
  }

  /** Runs beside the tests, and ends with them. */
  spawn(program: string, args: string[], env: Record<string, string> = this.env): ChildProcess {
    const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'ignore'] })
    this.#children.push(child)
    return child
  }

  async stop(): Promise<void> {
    for (const child of this.#children.reverse()) {
      if (child.exitCode !== null || child.signalCode !== null) continue
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
  }
}
