import { readFile, realpath } from 'node:fs/promises'
import { basename, sep } from 'node:path'
import { RpcErrorCode, type ExtractResult } from '../protocol.js'
import { brief, expect, Failure, Skip, type Bench, type Check } from './check.js'
import { callOf } from './kinds.js'
import { cancelSome } from './messageChecks.js'
import type { Answer, Wire } from './wire.js'

/** Extraction may take its time. */
const EXTRACT_MS = 60_000
const PARALLEL = 8
const ALL_BYTES = Uint8Array.from({ length: 4096 }, (_, index) => (index * 7) % 256)

const extension = ({ manifest }: Bench): string => manifest.supportedExtensions?.[0] ?? '.txt'

const extract = (wire: Wire, params: object): Promise<Answer> => wire.ask('extractor.extract', params, { timeoutMs: EXTRACT_MS })

async function sampleDocument(bench: Bench): Promise<Record<string, unknown> & { outputDir: string }> {
  if (bench.sample === undefined) throw new Skip(`give a document that it reads: --sample FILE${extension(bench)}`)
  return bench.document(basename(bench.sample), await readFile(bench.sample))
}

/** The text of an answer; fails when it has not exactly one, or one outside its place. */
async function textOf({ result, error }: Answer, outputDir: string): Promise<string> {
  expect(error === undefined, `the sample was refused: ${brief(error)}`)
  const { text, textPath } = (result ?? {}) as ExtractResult
  expect((text === undefined) !== (textPath === undefined), `the answer must have exactly one of text and textPath: ${brief(result)}`)
  if (textPath === undefined) {
    expect(Buffer.byteLength(text ?? '') <= 1024 * 1024, 'a text of more than 1 MiB goes by textPath')
    return text ?? ''
  }
  const file = await realpath(textPath).catch(() => {
    throw new Failure(`there is no file ${brief(textPath)}`)
  })
  expect(file.startsWith((await realpath(outputDir)) + sep), `${brief(textPath)} is not inside outputDir`)
  return new TextDecoder('utf-8', { fatal: true }).decode(await readFile(file))
}

/** What is no document of its kind: read somehow, or refused; never a mistake of the program. */
async function mustCope(bench: Bench, content: string | Uint8Array, what: string): Promise<void> {
  const wire = await bench.ready()
  const { error } = await extract(wire, await bench.document(`odd${extension(bench)}`, content))
  const { code } = error ?? {}
  expect(
    error === undefined || code === RpcErrorCode.rejected,
    `${what} failed with ${brief(code)} (${brief(error?.message)}): refuse it with rejected (${RpcErrorCode.rejected})`,
  )
  await wire.mustBeAlive(what)
}

/** What a document extractor has to do. */
export const extractorChecks: readonly Check[] = [
  {
    name: 'extractor/sample',
    expected: 'reads the sample: exactly one of text and textPath, the latter a UTF-8 file inside outputDir',
    run: async bench => {
      const document = await sampleDocument(bench)
      const text = await textOf(await extract(await bench.ready(), document), document.outputDir)
      expect(text.trim() !== '', 'the text of the sample is blank')
    },
  },
  {
    name: 'extractor/parallel',
    expected: `reads ${PARALLEL} documents at once and answers pings meanwhile`,
    run: async bench => {
      const wire = await bench.ready()
      const documents = await Promise.all(Array.from({ length: PARALLEL }, () => sampleDocument(bench)))
      const asked = documents.map(async document => textOf(await extract(wire, document), document.outputDir))
      const [texts] = await Promise.all([Promise.all(asked), wire.mustBeAlive(`${PARALLEL} documents were handed over`)])
      const different = new Set(texts).size
      expect(different === 1, `the same document ${PARALLEL} times gave ${different} different texts`)
    },
  },
  {
    name: 'extractor/cancel',
    expected: 'lives through calls that are given up, and reads the next document',
    run: async bench => {
      const wire = await bench.ready()
      await cancelSome(wire, 'extractor.extract', () => sampleDocument(bench))
      const document = await sampleDocument(bench)
      await textOf(await extract(wire, document), document.outputDir)
    },
  },
  {
    name: 'extractor/damaged',
    expected: 'reads or refuses (rejected) a document that is damaged',
    run: bench => mustCope(bench, ALL_BYTES, 'a damaged document'),
  },
  {
    name: 'extractor/empty',
    expected: 'reads or refuses (rejected) a document that is empty',
    run: bench => mustCope(bench, '', 'an empty document'),
  },
  {
    name: 'extractor/missing-file',
    expected: 'answers with an error when the document is not there, and serves on',
    run: async bench => {
      const wire = await bench.ready()
      const { error } = await extract(wire, callOf(bench.manifest)?.params ?? {})
      expect(error !== undefined, 'it read a document that does not exist')
      await wire.mustBeAlive('a document that does not exist')
    },
  },
]
