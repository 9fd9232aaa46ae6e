import { accessSync, closeSync, constants, existsSync, openSync, readSync, realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { BlockList, isIP } from 'node:net'
import { delimiter, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Unfit } from '../policy.js'
import { dieWithParent, hasDeathSignal, SURVIVES_KILL } from './reaper.js'
import { runProbe } from './runProbe.js'
import { ALWAYS_OPEN, pluginEnvironment, type Launch, type LaunchRequest, type Network, type Tier } from './tier.js'

/** Packages of the npm package `deno` that hold the program itself. */
const PLATFORM_PACKAGES: Record<string, string> = {
  'linux-x64': '@deno/linux-x64-glibc/deno',
  'linux-arm64': '@deno/linux-arm64-glibc/deno',
  'darwin-x64': '@deno/darwin-x64/deno',
  'darwin-arm64': '@deno/darwin-arm64/deno',
  'win32-x64': '@deno/win32-x64/deno.exe',
  'win32-arm64': '@deno/win32-arm64/deno.exe',
}

/**
 * What no name of a permitted host may lead to: loopback, private, link-local, shared and unspecified addresses. Deno
 * checks the addresses that names resolve to, so a name that is made to point inside does not help. It knows no IPv6
 * ranges, and lets IPv4-mapped addresses pass: that is said in `open`.
 */
const INSIDE = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '[::]',
  '[::1]',
]

/** What programs ask of the system without meaning harm. */
const SYSTEM_FACTS = 'cpus,hostname,osRelease,systemMemoryInfo,uid,gid'

let found: { path: string | undefined } | undefined

/** The Deno of this machine: of the npm package beside the gateway, else on the PATH. Looked for once. */
export const findDeno = (): string | undefined => (found ??= { path: besideGateway(import.meta.url) ?? onPath() }).path

const besideGateway = (from: string): string | undefined => {
  const program = PLATFORM_PACKAGES[`${process.platform}-${process.arch}`]
  if (program === undefined) return undefined
  try {
    const path = createRequire(createRequire(from).resolve('deno/package.json')).resolve(program)
    return realpathSync(path)
  } catch {
    return undefined
  }
}

const onPath = (): string | undefined => {
  for (const directory of (process.env.PATH ?? '').split(delimiter)) {
    const path = join(directory, process.platform === 'win32' ? 'deno.exe' : 'deno')
    if (directory === '' || !existsSync(path)) continue
    const real = realpathSync(path)
    // npm links a script that would start the program as its child.
    if (real.endsWith('.cjs')) return besideGateway(real)
    if (isExecutable(real)) return real
  }
  return undefined
}

/** A program itself, not a script that starts one. */
const isExecutable = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK)
    const file = openSync(path, 'r')
    const start = Buffer.alloc(2)
    readSync(file, start)
    closeSync(file)
    return start.toString('latin1') !== '#!'
  } catch {
    return false
  }
}

/**
 * The main program, which imports the plugin's. Deno does not hold what the main program imports by name to the
 * permissions: as the main program itself a plugin could import any file there is.
 */
const BOOT = 'data:text/javascript,await%20import(Deno.args[0])'

/** Where the plugin finds its directories: the host's paths, or those inside of another sandbox around Deno. */
export interface DenoPlaces {
  directory: string
  dataDir: string
  exchangeDir: string
}

/** The arguments that start a JavaScript plugin in Deno with nothing but what it may have. */
export const denoArguments = ({ directory, dataDir, exchangeDir }: DenoPlaces, request: LaunchRequest): string[] => [
  'run',
  '--quiet',
  '--no-prompt',
  '--no-config',
  '--no-lock',
  '--no-remote',
  '--no-npm',
  '--cached-only',
  '--no-code-cache',
  '--unstable-detect-cjs',
  `--v8-flags=--max-old-space-size=${request.maxHeapMb}`,
  `--allow-read=${[directory, dataDir, exchangeDir].join(',')}`,
  `--allow-write=${[dataDir, exchangeDir].join(',')}`,
  `--allow-sys=${SYSTEM_FACTS}`,
  // Its environment holds nothing but what is meant for it.
  '--allow-env',
  ...networkFlags(request.network),
  BOOT,
  pathToFileURL(join(directory, request.entry.file)).href,
]

const networkFlags = (network: Network): string[] => {
  if (network.kind === 'none') return []
  if (network.kind === 'open') return ['--allow-net']
  return [`--allow-net=${network.hosts.join(',')}`, `--deny-net=${deniedRanges(network.hosts).join(',')}`]
}

/** The ranges inside without the addresses that the manifest names itself: what the administrator installed says that it needs them. */
export const deniedRanges = (hosts: readonly string[]): string[] => {
  const named = hosts.flatMap(insideAddressesOf)
  return INSIDE.flatMap(range => {
    if (!range.includes('/')) return named.includes(range) ? [] : [range]
    const [network = '', bits = ''] = range.split('/')
    return without(toNumber(network), Number(bits), named.filter(address => isIP(address) === 4).map(toNumber))
  })
}

/** The IPv4 range in halves, and those in halves, until no part of it that is left has one of the addresses. */
const without = (network: number, bits: number, addresses: readonly number[]): string[] => {
  const size = 2 ** (32 - bits)
  const inside = addresses.filter(address => address >= network && address < network + size)
  if (inside.length === 0) return [`${toAddress(network)}/${bits}`]
  if (bits === 32) return []
  return [...without(network, bits + 1, inside), ...without(network + size / 2, bits + 1, inside)]
}

const toNumber = (address: string): number => address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
const toAddress = (value: number): string => [24, 16, 8, 0].map(shift => Math.floor(value / 2 ** shift) % 256).join('.')

/** The addresses inside that a host of a manifest (`name`, `name:port`, `[v6]:port`) is by its own name; IPv6 in brackets. */
const insideAddressesOf = (host: string): string[] => {
  const name = host.startsWith('[') ? host.slice(1, host.indexOf(']')) : (host.split(':')[0] ?? '')
  if (name === 'localhost' || name.endsWith('.localhost')) return ['127.0.0.1', '[::1]']
  if (isIP(name) === 6) return INSIDE.includes(`[${name}]`) ? [`[${name}]`] : []
  return isIP(name) === 4 && insideRanges.check(name) ? [name] : []
}

const insideRanges = new BlockList()
for (const range of INSIDE.filter(one => one.includes('/'))) {
  const [network = '', bits = ''] = range.split('/')
  insideRanges.addSubnet(network, Number(bits))
}

/** What holds of the network in Deno, for the administrator. */
export const describeNetwork = (network: Network): { enforced: string[]; open: string[] } => {
  if (network.kind === 'none') return { enforced: ['network'], open: [] }
  if (network.kind === 'open') return { enforced: [], open: ['network'] }
  const inside = network.hosts.filter(host => insideAddressesOf(host).length > 0)
  const lifted = [...new Set(inside.flatMap(insideAddressesOf))]
  return {
    enforced: [
      `network, except ${network.hosts.join(', ')}`,
      `IPv4 addresses of this machine and of private networks, also behind permitted names${lifted.length === 0 ? '' : `, except ${lifted.join(', ')}`}`,
    ],
    open: [
      'private IPv6 addresses, and IPv4 addresses written as IPv6, behind permitted names',
      ...(inside.length === 0 ? [] : [`addresses inside that its manifest names: ${inside.join(', ')}`]),
      ...(lifted.length === 0 ? [] : [`${lifted.join(', ')} behind permitted names too, on their ports: its manifest names them`]),
    ],
  }
}

/** Deno for JavaScript plugins: files, processes, foreign code and, host by host, the network. */
export const deno: Tier = {
  name: 'deno',
  probe: () => {
    const path = findDeno()
    if (path === undefined) return Promise.resolve('deno is not installed')
    const program = 'try { Deno.readTextFileSync("/etc/hostname") } catch (e) { if (e.name === "NotCapable") console.log("confined") }'
    return runProbe(path, ['run', '--no-prompt', '--no-config', `data:text/javascript,${encodeURIComponent(program)}`])
  },
  accepts: entry => entry.kind === 'javascript',
  prepare: (request): Launch => {
    const places = {
      directory: realpathSync(request.directory),
      dataDir: realpathSync(request.dataDir),
      exchangeDir: realpathSync(request.exchangeDir),
    }
    // Deno takes lists of paths apart at commas, and would open what stands before one.
    if (Object.values(places).some(path => path.includes(',')))
      throw new Unfit('Deno cannot hold a plugin to a directory with a comma in its path: move Service:DataDir', {
        dependsOnSettings: true,
      })
    const [command = '', ...args] = dieWithParent([findDeno() ?? 'deno', ...denoArguments(places, request)])
    const network = describeNetwork(request.network)
    return {
      command,
      args,
      env: { ...pluginEnvironment(), ...denoEnvironment(places.dataDir) },
      cwd: places.dataDir,
      dataDirInPlugin: places.dataDir,
      exchangeDirInPlugin: places.exchangeDir,
      enforced: [
        'files outside its own directories',
        'child processes',
        'signals to other processes',
        'native add-ons',
        "the gateway's environment",
        'heap size',
        ...network.enforced,
      ],
      open: [
        'memory outside the heap (watched)',
        ...ALWAYS_OPEN,
        'worker threads',
        ...network.open,
        ...(hasDeathSignal ? [] : [SURVIVES_KILL]),
      ],
    }
  },
}

/** Deno keeps nothing between runs, and asks nobody for news. */
export const denoEnvironment = (dataDir: string): Record<string, string> => ({
  DENO_DIR: join(dataDir, '.deno'),
  DENO_NO_UPDATE_CHECK: '1',
  NO_COLOR: '1',
})
