import type { Heartbeat } from './protocol.js'

/** Makes heartbeats out of what the process measures about itself. */
export const heartbeats = (nodeId: string, version: string): (() => Heartbeat) => {
  let usage = process.cpuUsage()
  let at = process.hrtime.bigint()
  return () => {
    const { user, system } = process.cpuUsage(usage)
    const now = process.hrtime.bigint()
    const elapsedMicroseconds = Number(now - at) / 1000
    usage = process.cpuUsage()
    at = now
    return {
      nodeId,
      status: 'online',
      uptime: Math.round(process.uptime()),
      platform: process.platform,
      version,
      cpuPercent: elapsedMicroseconds > 0 ? Math.round((1000 * (user + system)) / elapsedMicroseconds) / 10 : 0,
      memoryMb: Math.round(process.memoryUsage.rss() / 104_857.6) / 10,
    }
  }
}
