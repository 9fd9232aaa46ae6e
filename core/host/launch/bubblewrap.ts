import { existsSync, lstatSync, readlinkSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { resolveCommand } from '../../../sdk/manifest.js'
import { runProbe } from './runProbe.js'
import { pluginEnvironment, type Launch, type LaunchRequest, type Tier } from './tier.js'

const BWRAP = ['/usr/bin/bwrap', '/usr/local/bin/bwrap', '/bin/bwrap'].find(path => existsSync(path)) ?? 'bwrap'
const PLUGIN = '/plugin'
const DATA = '/data'
const EXCHANGE = '/exchange'
/** What a plugin may put into its own /tmp, which is memory. */
const TMP_BYTES = 64 * 1024 * 1024
const NODE = '/runtime/node'

/**
 * Its own namespaces without a way to make more, no capabilities (as root bubblewrap would leave all of them), and an
 * end with the gateway.
 */
const ISOLATION = ['--unshare-all', '--unshare-user', '--cap-drop', 'ALL', '--disable-userns', '--die-with-parent', '--hostname', 'plugin']

/** What programs and their libraries need, read only. Of /etc only what the dynamic linker looks at: the rest is the host's business. */
const systemFiles = (): string[] => [
  '--ro-bind',
  '/usr',
  '/usr',
  ...['/bin', '/sbin', '/lib', '/lib32', '/lib64'].flatMap(path => {
    if (!existsSync(path)) return []
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
  '--size',
  String(TMP_BYTES),
  '--tmpfs',
  '/tmp',
]

/** Names, certificates and the network itself, for a plugin that may use it. */
const networkFiles = (): string[] => [
  '--share-net',
  ...['/etc/resolv.conf', '/etc/hosts', '/etc/nsswitch.conf', '/etc/ssl/certs', '/etc/pki/tls/certs'].flatMap(bindIfThere),
]

const bindIfThere = (path: string): string[] => (existsSync(path) ? ['--ro-bind', realpathSync(path), path] : [])

const environment = (network: boolean): string[] => {
  const variables = {
    ...pluginEnvironment(),
    PATH: '/usr/local/bin:/usr/bin:/bin',
    HOME: DATA,
    ...(network && existsSync('/etc/ssl/certs/ca-certificates.crt') ? { SSL_CERT_DIR: '/etc/ssl/certs' } : {}),
  }
  return Object.entries(variables).flatMap(([name, value]) => ['--setenv', name, value])
}

const program = ({ entry, directory, maxHeapMb }: LaunchRequest): string[] => {
  if (entry.kind === 'javascript') return [NODE, `--max-old-space-size=${maxHeapMb}`, join(PLUGIN, entry.file)]
  const root = realpathSync(directory)
  const words = resolveCommand(root, entry).map(word => (word.startsWith(root) ? PLUGIN + word.slice(root.length) : word))
  return words[0] === 'node' ? [NODE, ...words.slice(1)] : words
}

/** Linux namespaces by bubblewrap: the plugin sees its own directory, its own data and the system's programs, nothing else. */
export const bubblewrap: Tier = {
  name: 'bubblewrap',
  probe: () =>
    process.platform === 'linux'
      ? runProbe(BWRAP, [
          ...ISOLATION,
          ...systemFiles(),
          NODE,
          '-e',
          'process.stdout.write(require("fs").existsSync("/root") || require("fs").existsSync("/home") ? "open" : "confined")',
        ])
      : Promise.resolve('bubblewrap is for Linux'),
  accepts: () => true,
  prepare: (request): Launch => {
    const network = request.network.kind !== 'none'
    return {
      command: BWRAP,
      args: [
        ...ISOLATION,
        ...systemFiles(),
        ...(network ? networkFiles() : []),
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
        ...environment(network),
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
        ...(network ? [] : ['network']),
      ],
      open: [
        'child processes inside its sandbox',
        'memory (watched)',
        ...(request.network.kind === 'open' ? ['network'] : []),
        ...(request.network.kind === 'hosts' ? [`network: this tier cannot hold it to ${request.network.hosts.join(', ')}`] : []),
      ],
    }
  },
}
