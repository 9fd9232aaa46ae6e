import { createRequire } from 'node:module'
import { join, relative, resolve } from 'node:path'
import { Command, Option } from 'commander'
import { writeArchive } from './archive.js'
import { bundle } from './bundle.js'
import { checkProject, CliError, isScript, type PluginProject } from './project.js'
import { generateKey, readSigner } from './signing.js'
import { KINDS, scaffold, type Kind } from './scaffold.js'
import type { RunOptions } from './run/run.js'
import type { TestOptions } from './test.js'

const { version } = createRequire(import.meta.url)('@agent-gateway/sdk/package.json') as { version: string }

const say = (line: string): void => void process.stdout.write(`${line}\n`)
const near = (path: string): string => relative(process.cwd(), path) || '.'

async function create(name: string, { kind, dir, sdk }: { kind: Kind; dir?: string; sdk?: string }): Promise<void> {
  const directory = resolve(dir ?? name)
  const files = await scaffold(name, { kind, directory, sdk: sdk ?? `^${version}` })
  for (const file of files) say(`wrote ${near(join(directory, file))}`)
  say(`Next: cd ${near(directory)} && npm install && npm test`)
}

async function validate(directory: string): Promise<PluginProject> {
  const { project, lines } = await checkProject(directory)
  for (const line of lines) process.stderr.write(`${line}\n`)
  if (!project) throw new CliError('The manifest cannot be published: correct the errors above')
  return project
}

async function keygen({ out }: { out: string }): Promise<void> {
  const file = resolve(out)
  const publicKey = await generateKey(file)
  say(`wrote the private key ${near(file)}: keep it secret, and sign with it: service dev build --sign ${near(file)}`)
  say('the public key, for Service:Plugins:TrustedKeys of the gateways that shall trust it:')
  say(publicKey)
}

interface BuildOptions {
  out?: string
  archive: boolean
  sign?: string
}

async function build(directory: string, { out, archive, sign: keyFile }: BuildOptions): Promise<void> {
  const sign = keyFile === undefined ? undefined : await readSigner(resolve(keyFile))
  const project = await validate(directory)
  const script = isScript(project) ? await bundle(project) : undefined
  if (script) say(`wrote ${near(script.file)} (${Math.ceil(script.text.length / 1024)} KiB)`)
  if (!archive) {
    if (!script) say('nothing to bundle: the program is shipped as it is')
    return
  }
  const file = resolve(out ?? join(project.directory, `${project.manifest.name}-${project.manifest.version}.service-plugin`))
  const names = await writeArchive(project, { script, out: file, sign })
  say(`wrote ${near(file)} (${names.join(', ')})`)
}

const program = new Command('service').description('The command line of Agent Gateway for developers.').version(version)
const dev = program.command('dev').description('make plugins')
dev
  .command('new <name>')
  .description('write a new plugin in TypeScript')
  .addOption(new Option('--kind <kind>', 'what it is').choices([...KINDS]).makeOptionMandatory())
  .option('--dir <folder>', 'where to (default: a folder of its name)')
  .option('--sdk <range or path>', 'the SDK its package.json asks for (default: this version)')
  .action(create)
dev
  .command('validate [folder]')
  .description('check manifest.json as it must be to be published')
  .action(async (directory = '.') => {
    const { manifest } = await validate(directory as string)
    say(`${manifest.name} ${manifest.version} is a valid ${manifest.pluginInterface}`)
  })
dev
  .command('build [folder]')
  .description('check, bundle into publish/, and write the .service-plugin archive')
  .option('--out <file>', 'where the archive goes (default: <name>-<version>.service-plugin in the folder)')
  .option('--no-archive', 'only the bundle')
  .addOption(new Option('--sign <key file>', 'sign the archive with a private key of "service dev keygen"').conflicts('archive'))
  .action((directory: string | undefined, options: BuildOptions) => build(directory ?? '.', options))
dev
  .command('keygen')
  .description('make a key to sign archives with, and print its public half')
  .option('--out <file>', 'where the private key goes', 'service-plugin.key')
  .action(keygen)
dev
  .command('test [folder-or-archive]')
  .description('drive the plugin through everything that the protocol says, whatever it is written in')
  .option('--sample <file>', 'a document that it reads, a webhook of its platform as JSON, or a question for its model')
  .option('--settings <file.json>', 'values of its settings; {sink} is a local server that accepts everything')
  .option('--no-build', 'test what stands there: do not bundle the source first')
  .action(async (target: string | undefined, options: TestOptions) => {
    const { testPlugin } = await import('./test.js')
    // The plugins under test end with this process when it exits; a signal alone would leave them.
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
    if (!(await testPlugin(target ?? '.', options, say))) process.exitCode = 1
  })
dev
  .command('run [folder]')
  .description('run it in a live gateway: build, load, reload on save, show states and logs')
  .option('--url <address>', 'the gateway (default: AGENT_GATEWAY_URL, else http://127.0.0.1:8080)')
  .option('--token-file <file>', "holds an administrator's token (default: the variable AGENT_GATEWAY_TOKEN)")
  .option('--plugins-dir <folder>', 'a directory that the gateway scans (default: AGENT_GATEWAY_PLUGINS_DIR)')
  .option('--inspect [port]', "open a debugger's port, 9229 by default, where the sandbox permits it")
  .option('--sign <key file>', 'sign what is built, for a gateway that runs signed plugins only')
  .option('--keep', 'leave the plugin in the gateway at the end')
  .action(async (directory: string | undefined, options: RunOptions) => {
    const { runPlugin } = await import('./run/run.js')
    const end = new AbortController()
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => end.abort())
    await runPlugin(directory ?? '.', options, text => process.stdout.write(text), end.signal)
  })

try {
  await program.parseAsync()
} catch (error) {
  // What the system refuses (a full disk, a missing right) names the path itself, and no stack helps with it.
  const isForeseen = error instanceof CliError || (error as NodeJS.ErrnoException).syscall !== undefined
  if (!isForeseen) throw error
  process.stderr.write(`${(error as Error).message}\n`)
  process.exitCode = 1
}
