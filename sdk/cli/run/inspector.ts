import type { PluginRecord } from './gateway.js'

/**
 * Put before a development build: opens the debugger's port from inside, once the version before has let go of it.
 * What stands in the way is said on stderr, and the plugin runs on.
 */
export const inspectorBanner = (port: number): string => `
import('node:net').then(({ createServer }) => import('node:inspector').then(inspector => {
  const tryIt = left => {
    const probe = createServer().once('error', error => {
      if (error.code === 'EADDRINUSE' && left > 0) setTimeout(tryIt, 200, left - 1).unref()
      else console.error('no debugger: port ${port}: ' + error.message)
    })
    probe.listen(${port}, '127.0.0.1', () => probe.close(() => {
      try { inspector.open(${port}, '127.0.0.1') } catch (error) { console.error('no debugger: ' + error.message) }
    })).unref()
  }
  tryIt(150)
})).catch(error => console.error('no debugger: ' + error.message))
`

/** Whether the debugger of this plugin answers on this machine. */
export async function hasDebugger(port: number, name: string): Promise<boolean> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/json/list`, { signal: AbortSignal.timeout(1000) })
    const targets = (await response.json()) as { url?: string }[]
    return targets.some(({ url = '' }) => url.includes(name))
  } catch {
    return false
  }
}

/** Why there is no debugger, as far as the sandbox tells. */
export function whyNoDebugger(port: number, { sandbox }: PluginRecord): string {
  const enforced = sandbox?.enforced ?? []
  const tier = sandbox?.tier ?? 'none'
  if (tier === 'node-permission') return "it runs in the tier node-permission, and Node's permission model forbids the debugger"
  if (tier === 'deno') return 'it runs in the tier deno, where a program cannot open a debugger by itself'
  if (enforced.some(item => item.startsWith('network')))
    return `it runs in the tier ${tier} with a network of its own, so port ${port} cannot be reached from here: its manifest asks for no open network (permissions.net)`
  return `nothing answers on port ${port} of this machine; it runs in the tier ${tier}, and its log may say why`
}
