import { existsSync, lstatSync, readlinkSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { resolveCommand } from '../../../sdk/manifest.js'
import { denoArguments, denoEnvironment, describeNetwork } from './deno.js'
import { runProbe } from './runProbe.js'
import { shownMemory } from './shownMemory.js'
import { ALWAYS_OPEN, pluginEnvironment, WATCHED_MEMORY, type Launch, type LaunchRequest, type Network, type Tier } from './tier.js'

const BWRAP = ['/usr/bin/bwrap', '/usr/local/bin/bwrap', '/bin/bwrap'].find(path => existsSync(path)) ?? 'bwrap'
const PLUGIN = '/plugin'
const DATA = '/data'
const EXCHANGE = '/exchange'
/** The system's directories that a plugin sees. */
const SYSTEM = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64']
/** What a plugin may put into its own /tmp, which is memory, and as much into /dev/shm. */
const TMP_BYTES = 64 * 1024 * 1024
const MEMINFO = '/proc/meminfo'
const NODE = '/runtime/node'
const DENO = '/runtime/deno'

/**
 * Its own namespaces without a way to make more, no capabilities (as root bubblewrap would leave all of them), and an
 * end with the gateway.
 */
const ISOLATION = ['--unshare-all', '--unshare-user', '--cap-drop', 'ALL', '--disable-userns', '--die-with-parent', '--hostname', 'plugin']

const boundedMemory = (path: string): string[] => ['--size', String(TMP_BYTES), '--tmpfs', path]

/** Directories of the gateway that would show because they lie below the system's own. */
const hide = (paths: readonly string[]): string[] =>
  paths.flatMap(path =>
    existsSync(path) && SYSTEM.some(shown => isBelow(realpathSync(path), shown)) ? ['--tmpfs', realpathSync(path)] : [],
  )

const isBelow = (path: string, directory: string): boolean => existsSync(directory) && path.startsWith(`${realpathSync(directory)}/`)

/** What programs and their libraries need, read only. Of /etc only what the dynamic linker looks at: the rest is the host's business. */
const systemFiles = (): string[] => [
  '--ro-bind',
  '/usr',
  '/usr',
  ...SYSTEM.flatMap(path => {
    if (path === '/usr' || !existsSync(path)) return []
    return lstatSync(path).isSymbolicLink() ? ['--symlink', readlinkSync(path), path] : ['--ro-bind', path, path]
  }),
  ...['/etc/ld.so.cache', '/etc/localtime', '/etc/alternatives'].flatMap(bindIfThere),
  '--ro-bind',
  realpathSync(process.execPath),
  NODE,
  '--proc',
  '/proc',
  '--dev',
  '/dev',
  ...boundedMemory('/dev/shm'),
  // What else is below /dev would be memory without a bound.
  '--remount-ro',
  '/dev',
  ...boundedMemory('/tmp'),
]

/** Names, certificates and the network itself, for a plugin that may use it. */
const networkFiles = (): string[] => [
  '--share-net',
  ...['/etc/resolv.conf', '/etc/hosts', '/etc/nsswitch.conf', '/etc/ssl/certs', '/etc/pki/tls/certs'].flatMap(bindIfThere),
]

const bindIfThere = (path: string): string[] => (existsSync(path) ? ['--ro-bind', realpathSync(path), path] : [])

/** The memory that programs believe this machine to have. */
const showMemory = (file: string): string[] => ['--ro-bind', file, MEMINFO]

const environment = (network: boolean, more: Record<string, string>): string[] => {
  const variables = {
    ...pluginEnvironment(),
    PATH: '/usr/local/bin:/usr/bin:/bin',
    HOME: DATA,
    ...more,
    ...(network && existsSync('/etc/ssl/certs/ca-certificates.crt') ? { SSL_CERT_DIR: '/etc/ssl/certs' } : {}),
  }
  return Object.entries(variables).flatMap(([name, value]) => ['--setenv', name, value])
}

const program = (request: LaunchRequest): string[] => {
  const { entry, directory, hostFilter } = request
  if (hostFilter !== undefined) return [DENO, ...denoArguments({ directory: PLUGIN, dataDir: DATA, exchangeDir: EXCHANGE }, request)]
  if (entry.kind === 'javascript') return [NODE, join(PLUGIN, entry.file)]
  const root = realpathSync(directory)
  const words = resolveCommand(root, entry).map(word => (word.startsWith(root) ? PLUGIN + word.slice(root.length) : word))
  return words[0] === 'node' ? [NODE, ...words.slice(1)] : words
}

const unfiltered = (network: Network): { enforced: string[]; open: string[] } => {
  if (network.kind === 'none') return { enforced: ['network'], open: [] }
  if (network.kind === 'open') return { enforced: [], open: ['network'] }
  return { enforced: [], open: [`network: without Deno this tier cannot hold it to ${network.hosts.join(', ')}`] }
}

/** Linux namespaces by bubblewrap: the plugin sees its own directory, its own data and the system's programs, nothing else. */
export const bubblewrap: Tier = {
  name: 'bubblewrap',
  probe: () =>
    process.platform === 'linux'
      ? runProbe(BWRAP, [
          ...ISOLATION,
          ...systemFiles(),
          ...showMemory(MEMINFO),
          NODE,
          '-e',
          'process.stdout.write(require("fs").existsSync("/root") || require("fs").existsSync("/home") ? "open" : "confined")',
        ])
      : Promise.resolve('bubblewrap is for Linux'),
  accepts: () => true,
  prepare: (request): Launch => {
    const network = request.network.kind !== 'none'
    const held = request.hostFilter === undefined ? unfiltered(request.network) : describeNetwork(request.network)
    return {
      command: BWRAP,
      args: [
        ...ISOLATION,
        ...systemFiles(),
        ...(network ? networkFiles() : []),
        ...hide(request.hidden),
        ...showMemory(shownMemory(request.ownDir, request.maxHeapMb)),
        '--ro-bind',
        realpathSync(request.directory),
        PLUGIN,
        '--bind',
        realpathSync(request.dataDir),
        DATA,
        '--bind',
        realpathSync(request.exchangeDir),
        EXCHANGE,
        '--chdir',
        DATA,
        ...(request.hostFilter === undefined ? [] : ['--ro-bind', realpathSync(request.hostFilter), DENO]),
        ...environment(network, request.hostFilter === undefined ? {} : denoEnvironment(DATA)),
        '--',
        ...program(request),
      ],
      // Not --clearenv: a child of bwrap could read bwrap's own environment in /proc/1/environ.
      env: {},
      cwd: dirname(realpathSync(request.directory)),
      dataDirInPlugin: DATA,
      exchangeDirInPlugin: EXCHANGE,
      enforced: [
        'files outside its own directories',
        'processes and signals outside its own',
        'capabilities and new namespaces',
        "the gateway's environment",
        'end with the gateway',
        ...(request.entry.kind === 'javascript' ? ['heap size'] : []),
        ...(request.hostFilter === undefined ? [] : ['child processes', 'native add-ons']),
        ...held.enforced,
      ],
      open: [
        ...(request.hostFilter === undefined
          ? ['child processes, worker threads and native add-ons inside its sandbox']
          : ['worker threads']),
        WATCHED_MEMORY,
        ...ALWAYS_OPEN,
        ...held.open,
      ],
    }
  },
}
