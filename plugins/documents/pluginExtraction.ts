import { constants } from 'node:fs'
import { copyFile, mkdir, open, realpath } from 'node:fs/promises'
import { basename, join, sep } from 'node:path'
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

/** Lets a plugin read the document: a copy in a directory that both can see, gone again when this settles. */
export const extractByPlugin = async (host: PluginHost, pluginId: string, task: ExtractTask, signal: AbortSignal): Promise<Parsed> => {
  const exchange = await host.exchange(pluginId)
  try {
    const file = `document${/^\.[\w.-]+$/.test(task.extension) ? task.extension : ''}`
    const outputDir = join(exchange.path, 'output')
    await mkdir(outputDir, { mode: 0o700 })
    await copyFile(task.path, join(exchange.path, file), constants.COPYFILE_FICLONE)
    const { name, extension, mimeType, size } = task
    const params = {
      path: join(exchange.pathInPlugin, file),
      name,
      extension,
      mimeType,
      size,
      outputDir: join(exchange.pathInPlugin, 'output'),
    }
    const result = await host.request(pluginId, 'extractor.extract', params, { timeoutMs: TIMEOUT_MS, signal })
    const title = typeof result.title === 'string' ? { title: result.title.slice(0, 300) } : {}
    if (typeof result.text === 'string') return { text: result.text.slice(0, task.maxLength), ...title }
    if (typeof result.textPath !== 'string') throw new Error(`the plugin ${pluginId} answered without a text`)
    return { text: await readOutput(outputDir, basename(result.textPath), task.maxLength), ...title }
  } finally {
    await exchange.remove()
  }
}

/** Reads what the plugin wrote. Only the name counts, and a link out of the directory is refused: the plugin could point it anywhere. */
const readOutput = async (outputDir: string, name: string, maxLength: number): Promise<string> => {
  const path = await realpath(join(outputDir, name)).catch(() => '')
  if (!path.startsWith((await realpath(outputDir)) + sep))
    throw new Error(`the plugin named a text file that is not in its output directory: ${name.slice(0, 100)}`)
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    const stats = await handle.stat()
    if (!stats.isFile()) throw new Error('the plugin named something that is no file as its text')
    const buffer = Buffer.alloc(Math.min(stats.size, maxLength * 4))
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, 0)
    return new TextDecoder().decode(buffer.subarray(0, bytesRead)).slice(0, maxLength)
  } finally {
    await handle.close()
  }
}
