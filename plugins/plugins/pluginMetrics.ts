import type { PluginHostCore } from '../../core/host/host.js'
import type { Supervisor } from '../../core/host/supervisor.js'
import type { Labels, Metric } from '../ops/contract.js'

/** What an operator wants to know of the external plugins; each sample carries its plugin's id. */
export const pluginMetrics = (host: PluginHostCore): Metric[] => {
  const each = (value: (supervisor: Supervisor) => number | undefined): { labels: Labels; value: number }[] =>
    host.supervisors.flatMap(supervisor => {
      const measured = value(supervisor)
      return measured === undefined ? [] : [{ labels: { plugin: supervisor.id }, value: measured }]
    })
  return [
    {
      name: 'gateway_plugin_state',
      help: 'The state that the plugin is in',
      type: 'gauge',
      samples: host.supervisors.map(({ id, state }) => ({ labels: { plugin: id, state }, value: 1 })),
    },
    { name: 'gateway_plugin_up', help: 'Whether its process serves', type: 'gauge', samples: each(({ current }) => (current ? 1 : 0)) },
    {
      name: 'gateway_plugin_calls_total',
      help: 'Calls made to the plugin',
      type: 'counter',
      samples: each(({ latency }) => latency.calls),
    },
    {
      name: 'gateway_plugin_call_errors_total',
      help: 'Calls that failed',
      type: 'counter',
      samples: each(({ latency }) => latency.errors),
    },
    {
      name: 'gateway_plugin_call_duration_seconds',
      help: 'How long calls took, failed ones too',
      type: 'histogram',
      samples: host.supervisors.map(({ id, latency }) => ({
        labels: { plugin: id },
        buckets: latency.buckets.map(({ le, count }) => ({ le: le / 1000, count })),
        count: latency.calls,
        sum: latency.sum / 1000,
      })),
    },
    { name: 'gateway_plugin_restarts_total', help: 'Starts after the first', type: 'counter', samples: each(({ restarts }) => restarts) },
    {
      name: 'gateway_plugin_resident_bytes',
      help: 'Resident memory of the plugin with its children',
      type: 'gauge',
      samples: each(({ residentBytes }) => residentBytes),
    },
    {
      name: 'gateway_plugin_stored_bytes',
      help: 'Disk in the directories that the plugin can write',
      type: 'gauge',
      samples: each(({ storedBytes }) => storedBytes),
    },
    {
      name: 'gateway_plugin_pending_calls',
      help: 'Calls under way',
      type: 'gauge',
      samples: each(({ current }) => current?.process.stats.pending),
    },
    {
      name: 'gateway_plugin_waiting_calls',
      help: 'Calls that wait for a place',
      type: 'gauge',
      samples: each(({ current }) => current?.process.stats.waiting),
    },
  ]
}
