import { constants } from 'node:fs'
import { copyFile, mkdir } from 'node:fs/promises'
import { isAbsolute, join, relative, resolve, sep } from 'node:path'
import { compare } from 'semver'
import type { Exchange } from '../../core/host/exchange.js'
import type { PluginExtractor, PluginHost } from '../plugins/contract.js'
import { NotUnicode } from './parser.js'
import type { ParsedText, TextSource } from './parseWorker.js'

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
  /** Keeps the text that the plugin gave, in a worker; rejects with `NotUnicode`. */
  keep: (source: TextSource) => Promise<ParsedText>
}

/** A large document may take a plugin a while; progress keeps the call alive beyond it. */
const TIMEOUT_MS = 60_000
const OUTPUT = 'output'
/** Of UTF-8, for a text in the answer itself: the protocol's limit. */
const MAX_INLINE_BYTES = 1024 * 1024

/** Lets a plugin read the document: a copy in a directory that both can see, gone again when this settles. */
export const extractByPlugin = async (host: PluginHost, pluginId: string, task: ExtractTask, signal: AbortSignal): Promise<ParsedText> => {
  const { name, extension, mimeType, size, keep } = task
  const file = `document${/^\.[\w.-]+$/.test(extension) ? extension : ''}`
  const exchange = await host.exchange(pluginId, async draft => {
    await mkdir(join(draft, OUTPUT), { mode: 0o700 })
    await copyFile(task.path, join(draft, file), constants.COPYFILE_FICLONE)
  })
  try {
    const outputDir = join(exchange.pathInPlugin, OUTPUT)
    const params = { path: join(exchange.pathInPlugin, file), name, extension, mimeType, size, outputDir }
    const { text, textPath, title } = readAnswer(
      await host.request(pluginId, 'extractor.extract', params, { timeoutMs: TIMEOUT_MS, signal }),
    )
    const found =
      textPath === undefined ? await keep({ kind: 'answer', text }) : await keepFile(exchange, placeOf(textPath, outputDir), keep)
    return { ...found, ...(title === undefined ? {} : { title: title.slice(0, 300) }) }
  } catch (error) {
    if (error instanceof BadAnswer || error instanceof NotUnicode)
      throw new Error(`the plugin ${pluginId} made a mistake: ${error.message}`, { cause: error })
    throw error
  } finally {
    await exchange.remove()
  }
}

/** The plugin's answer is not what the protocol says. The message goes on after "it". */
class BadAnswer extends Error {}

type Answer = { title: string | undefined } & ({ text: string; textPath: undefined } | { text: undefined; textPath: string })

/** What a plugin says is data: its shape and its limits are those of the protocol, or it is refused. */
const readAnswer = (answer: unknown): Answer => {
  const { text, textPath, title } = (typeof answer === 'object' && answer !== null ? answer : {}) as Record<string, unknown>
  if ((typeof text === 'string') === (typeof textPath === 'string'))
    throw new BadAnswer('it has to answer with either a text or a textPath')
  if (title !== undefined && typeof title !== 'string') throw new BadAnswer('its title is not a text')
  if (typeof textPath === 'string') return { text: undefined, textPath, title }
  const inline = text as string
  const bytes = Buffer.byteLength(inline)
  if (bytes > MAX_INLINE_BYTES)
    throw new BadAnswer(`its text has ${bytes} bytes, and more than ${MAX_INLINE_BYTES} have to go by file, as textPath`)
  return { text: inline, textPath: undefined, title }
}

/** Where the file is in the exchange. Both ways of writing a path are good: as the plugin sees it, or from its `outputDir`. */
const placeOf = (textPath: string, outputDir: string): string => {
  const inside = relative(outputDir, resolve(outputDir, textPath))
  if (inside === '' || inside.split(sep)[0] === '..' || isAbsolute(inside) || inside.includes('\0'))
    throw new BadAnswer('its textPath is not a file in its outputDir')
  return join(OUTPUT, inside)
}

/** The worker reads by the handle, which stands for the file that was checked here. */
const keepFile = async (exchange: Exchange, place: string, keep: ExtractTask['keep']): Promise<ParsedText> => {
  const handle = await exchange.open(place)
  try {
    return await keep({ kind: 'answerFile', fd: handle.fd })
  } finally {
    await handle.close()
  }
}
