import { z } from 'zod'
import { setting, type SettingValues } from '../../core/config.js'

const Release = z.object({ Version: z.string().min(1).max(100), Url: z.url().optional(), Sha256: z.string().max(100).optional() })
export type Release = z.infer<typeof Release>

export const settings = {
  /** How long a command waits for a node that is offline, or for its approval. */
  queueTtl: setting.duration('Service:Nodes:QueueTtl', { default: 3600, min: 1, hot: true }),
  /** Commands that may wait for one node. */
  maxQueued: setting.number('Service:Nodes:MaxQueued', { default: 1000, min: 1, hot: true, integer: true }),
  /** How long a finished command is kept. */
  retentionDays: setting.number('Service:Nodes:RetentionDays', { default: 30, min: 1, max: 3650, hot: true }),
  /** Commands that need an approval: names, `family.*` or `*`. */
  criticalCommands: setting.list('Service:Nodes:CriticalCommands', { default: ['input.*', 'app.*'], hot: true }),
  /** Whose critical commands need an approval. */
  criticalFor: setting.choice('Service:Nodes:CriticalFor', ['agents', 'everyone'], { default: 'agents', hot: true }),
  /** Without a heartbeat for this long a node is offline. */
  offlineAfter: setting.duration('Service:Nodes:OfflineAfter', { default: 90, min: 0.1, hot: true }),
  /** How long the token before a rotation stays good when the new one is not used. */
  rotationGrace: setting.duration('Service:Nodes:RotationGrace', { default: 60, min: 0.1, max: 3600, hot: true }),
  /** Between the WebSocket pings of the gateway. */
  pingInterval: setting.duration('Service:Nodes:PingInterval', { default: 15, min: 0.1, max: 3600 }),
  /** What a node that has no WebSocket is told to wait between its polls. */
  pollInterval: setting.duration('Service:Nodes:PollInterval', { default: 2, min: 0.1, hot: true }),
  /** The largest message that a node may send. */
  maxMessageBytes: setting.number('Service:Nodes:MaxMessageBytes', { default: 8 * 1024 * 1024, min: 64 * 1024, integer: true }),
  /** Bytes that one connection may send in a minute, results included; 0: no limit. */
  maxBytesPerMinute: setting.number('Service:Nodes:MaxBytesPerMinute', { default: 512 * 1024 * 1024, hot: true, integer: true }),
  /** Messages that nobody asked for, each minute and connection; 0: no limit. */
  maxMessages: setting.number('Service:Nodes:MaxMessagesPerMinute', { default: 600, hot: true, integer: true }),
  /** Pairing requests that may wait, in all and from one address. */
  maxPending: setting.number('Service:Nodes:MaxPending', { default: 1000, min: 1, hot: true, integer: true }),
  maxPendingPerAddress: setting.number('Service:Nodes:MaxPendingPerAddress', { default: 50, min: 1, hot: true, integer: true }),
  /** The newest release of the node software, by platform; `any` stands for the others. */
  releases: setting.section<Record<string, Release>>('Service:Nodes:Releases', z.record(z.string(), Release), { default: {}, hot: true }),
}

export type NodeSettings = SettingValues<typeof settings>
