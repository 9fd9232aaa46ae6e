import { defineCommand } from '@agent-gateway/sdk/node'
import {
  arch,
  availableParallelism,
  cpus,
  freemem,
  hostname,
  loadavg,
  platform,
  release,
  totalmem,
  uptime,
  userInfo,
  version,
} from 'node:os'

const toMb = (bytes: number): number => Math.round(bytes / 1_048_576)

/** What machine this is and how busy it is. */
export const systemInfo = defineCommand({
  name: 'system.info',
  params: {},
  repeatable: true,
  run: () =>
    Promise.resolve({
      hostname: hostname(),
      user: userInfo().username,
      platform: platform(),
      release: release(),
      version: version(),
      arch: arch(),
      cpu: cpus()[0]?.model ?? '',
      cores: availableParallelism(),
      loadAverage: loadavg(),
      memoryMb: { total: toMb(totalmem()), free: toMb(freemem()) },
      uptimeSeconds: Math.round(uptime()),
      time: new Date().toISOString(),
      timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    }),
})
