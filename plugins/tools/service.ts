import type { z } from 'zod'
import type { Tool, Tools } from './contract.js'

const TOOL_NAME = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/
const MAX_NAME_LENGTH = 64

/** The open set of tools of one gateway. */
export class ToolSet implements Tools {
  readonly #tools = new Map<string, Tool>()

  register<P extends z.ZodType>(tool: Tool<P>): () => void {
    const { name } = tool
    if (!TOOL_NAME.test(name) || name.length > MAX_NAME_LENGTH)
      throw new Error(`"${name}" is not a tool name: write family.verb in letters, digits, _ and -, at most ${MAX_NAME_LENGTH} characters`)
    if (this.#tools.has(name)) throw new Error(`Two tools are named "${name}"`)
    const registered = tool as unknown as Tool
    this.#tools.set(name, registered)
    return () => {
      if (this.#tools.get(name) === registered) this.#tools.delete(name)
    }
  }

  list(): Tool[] {
    return [...this.#tools.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  get(name: string): Tool | undefined {
    return this.#tools.get(name)
  }
}
