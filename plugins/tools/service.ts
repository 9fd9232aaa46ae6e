import type { z } from 'zod'
import type { Owner } from '../../core/store/collection.js'
import { isToolAllowed, type Tool, type Tools, type ToolSource } from './contract.js'

const TOOL_NAME = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/
const MAX_NAME_LENGTH = 64

/** The open set of tools of one gateway. */
export class ToolSet implements Tools {
  readonly #tools = new Map<string, Tool>()
  readonly #sources = new Set<ToolSource>()

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

  extend(source: ToolSource): () => void {
    this.#sources.add(source)
    return () => this.#sources.delete(source)
  }

  async usable(owner: Owner, allowed: readonly string[], permissions?: readonly string[]): Promise<Tool[]> {
    const isAllowed = (name: string): boolean => isToolAllowed(allowed, name)
    const registered = this.list().filter(({ name }) => isAllowed(name))
    const further = await Promise.all([...this.#sources].map(source => source.toolsFor(owner, isAllowed, permissions)))
    return [...registered, ...further.flat()]
  }
}
