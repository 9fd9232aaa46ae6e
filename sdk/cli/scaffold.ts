import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { parseManifest } from '../manifest.js'
import { CliError } from './project.js'
import { channelFiles } from './scaffoldChannel.js'
import { embeddingFiles } from './scaffoldEmbedding.js'
import { extractorFiles } from './scaffoldExtractor.js'
import { modelFiles } from './scaffoldModel.js'

const filesOf = { channel: channelFiles, extractor: extractorFiles, model: modelFiles, embedding: embeddingFiles }

export type Kind = keyof typeof filesOf
export const KINDS = Object.keys(filesOf) as readonly Kind[]

export interface ScaffoldOptions {
  kind: Kind
  directory: string
  /** What the new `package.json` asks for as the SDK: a version range or a path. */
  sdk: string
}

/** Writes a new plugin that builds, runs and passes its test. Returns the paths written. Throws a `CliError` when the folder is in use. */
export async function scaffold(name: string, { kind, directory, sdk }: ScaffoldOptions): Promise<string[]> {
  const probe = parseManifest({ name, pluginInterface: 'ChannelAdapter' }, { directoryName: name })
  if (probe.kind !== 'manifest' || !/^[a-z][a-z0-9-]*$/.test(name)) {
    throw new CliError(
      `${JSON.stringify(name)} is no good name for a plugin: 2 or more of a-z, 0-9 and "-", a letter first, for example "my-chat"`,
    )
  }
  const target = resolve(directory)
  const present = await readdir(target).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw new CliError(`${target} cannot be used: ${(error as Error).message}. Choose another folder with --dir`)
  })
  if (present.length > 0) throw new CliError(`${target} is not empty: choose another folder with --dir`)
  const files = { ...filesOf[kind](name), ...commonFiles(name, sdk) }
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(target, path)), { recursive: true })
    await writeFile(join(target, path), typeof content === 'string' ? content : json(content))
  }
  return Object.keys(files)
}

const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`

function commonFiles(name: string, sdk: string): Record<string, unknown> {
  return {
    'package.json': {
      name,
      version: '0.1.0',
      private: true,
      type: 'module',
      scripts: {
        build: 'service dev build',
        check: 'tsc',
        dev: 'service dev run',
        test: 'service dev build --no-archive && node --test test/*.test.mjs',
      },
      dependencies: { '@agent-gateway/sdk': sdk },
      devDependencies: { '@types/node': '^20.19.0', typescript: '^6.0.0' },
    },
    'tsconfig.json': {
      compilerOptions: {
        ...{ target: 'es2023', lib: ['es2023'], types: ['node'], module: 'nodenext', strict: true, noUncheckedIndexedAccess: true },
        ...{ verbatimModuleSyntax: true, skipLibCheck: true, noEmit: true },
      },
      include: ['src'],
    },
    '.gitignore': 'node_modules/\npublish/\n*.service-plugin\n*.key\n',
  }
}
