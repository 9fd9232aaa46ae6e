import { constants } from 'node:fs'
import { copyFile, mkdir, type FileHandle } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { compare } from 'semver'
import type { PluginExtractor, PluginHost } from '../plugins/contract.js'
import type { Parsed } from './parseWorker.js'

/** The plugin that reads files of this extension: the highest version, then the first name; one that runs before one that does not. */
export const chooseExtractor = (extractors: readonly PluginExtractor[], extension: string): PluginExtractor | undefined =>
  extractors
    .filter(({ extensions }) => extensions.includes(extension))
    .sort((a, b) => Number(b.ready) - Number(a.ready) || compare(b.version, a.version) || (a.pluginId < b.pluginId ? -1 : 1))[0]

interface ExtractTask {
  path: string
  name: string
  extension: string
  mimeType: string
  size: number
  maxLength: number
}

/** A large document may take a plugin a while; progress keeps the call alive beyond it. */
const TIMEOUT_MS = 60_000
const OUTPUT = 'output'

/** Lets a plugin read the document: a copy in a directory that both can see, gone again when this settles. */
export const extractByPlugin = async (host: PluginHost, pluginId: string, task: ExtractTask, signal: AbortSignal): Promise<Parsed> => {
  const { name, extension, mimeType, size, maxLength } = task
  const file = `document${/^\.[\w.-]+$/.test(extension) ? extension : ''}`
  const exchange = await host.exchange(pluginId, async draft => {
    await mkdir(join(draft, OUTPUT), { mode: 0o700 })
    await copyFile(task.path, join(draft, file), constants.COPYFILE_FICLONE)
  })
  try {
    const path = join(exchange.pathInPlugin, file)
    const params = { path, name, extension, mimeType, size, outputDir: join(exchange.pathInPlugin, OUTPUT) }
    const result = await host.request(pluginId, 'extractor.extract', params, { timeoutMs: TIMEOUT_MS, signal })
    const title = typeof result.title === 'string' ? { title: result.title.slice(0, 300) } : {}
    if (typeof result.text === 'string') return { text: result.text.slice(0, maxLength), ...title }
    if (typeof result.textPath !== 'string') throw new Error(`the plugin ${pluginId} answered without a text`)
    return { text: await readText(await exchange.open(join(OUTPUT, basename(result.textPath))), maxLength), ...title }
  } finally {
    await exchange.remove()
  }
}

const readText = async (handle: FileHandle, maxLength: number): Promise<string> => {
  try {
    const { size } = await handle.stat()
    const buffer = Buffer.alloc(Math.min(size, maxLength * 4))
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, 0)
    return new TextDecoder().decode(buffer.subarray(0, bytesRead)).slice(0, maxLength)
  } finally {
    await handle.close()
  }
}
