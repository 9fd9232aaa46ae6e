import { z } from 'zod'
import { conflict, notFound } from '../../core/errors.js'
import { pageOf, pageOfList, pageQuery } from '../../core/http/page.js'
import { route, type Route } from '../../core/http/route.js'
import type { PluginHostCore } from '../../core/host/host.js'
import type { Supervisor } from '../../core/host/supervisor.js'
import type { SettingValue } from '../../core/config.js'
import type { Audit } from '../audit/contract.js'
import { auditedBy } from './audited.js'
import type { Installer } from './installer.js'
import { installRoutes } from './installRoutes.js'
import { logRoutes } from './logRoutes.js'
import { describeDetail, findDetail, listPlugins, Plugin, PluginDetail } from './records.js'

const byId = z.object({ id: z.string().min(1).max(256) })
const PluginSettings = z.object({ enabled: z.boolean(), allowlist: z.array(z.string()) }).meta({ id: 'PluginSettings' })
const PluginSettingsChange = z.object({
  enabled: z.boolean().optional(),
  allowlist: z.array(z.string().min(1).max(128)).max(1000).optional().describe('Ids without regard to case; empty: every plugin'),
})

export interface PluginRouteSettings {
  enabled: SettingValue<boolean>
  allowlist: SettingValue<string[]>
}

export const pluginRoutes = (host: PluginHostCore, installer: Installer, settings: PluginRouteSettings, audit: Audit): Route[] => {
  const enabled = (): boolean => settings.enabled.get()

  const find = (id: string): Supervisor => {
    const supervisor = host.supervisor(id)
    if (!supervisor) throw notFound('Plugin')
    return supervisor
  }

  const audited = auditedBy(audit)

  const refuseWhenDisabled = (id: string): void => {
    if (!enabled()) throw conflict('External plugins are switched off: set Service:Plugins:Enabled, for example with PUT /plugins/settings')
    if (!host.isAllowed(id)) throw conflict(`The plugin ${id} is not on the allow-list: add it with PUT /plugins/settings`)
  }

  return [
    ...installRoutes(host, { installer, enabled, audited }),
    route({
      method: 'GET',
      path: '/plugins',
      access: 'gatewayAdmin',
      limit: 'read',
      summary: 'Every external plugin that was found, with its state',
      description: 'Rejected candidates are listed too, with the reason. A directory without a plugin manifest is none.',
      query: z.object(pageQuery),
      returns: pageOf(Plugin),
      handle: ({ query }) => pageOfList(listPlugins(host, enabled()), ({ id, source }) => `${id}\0${source}`, query),
    }),
    route({
      method: 'GET',
      path: '/plugins/:id',
      access: 'gatewayAdmin',
      limit: 'read',
      summary: 'One plugin, with its settings, metadata and newest output',
      params: byId,
      returns: PluginDetail,
      handle: ({ params: { id } }) => {
        const detail = findDetail(host, id, enabled())
        if (!detail) throw notFound('Plugin')
        return detail
      },
    }),
    ...logRoutes(id => find(id).log),
    route({
      method: 'POST',
      path: '/plugins/:id/restart',
      access: 'gatewayAdmin',
      limit: 'write',
      summary: 'Start the plugin again, also one that was stopped or has failed',
      description: 'Answers once the new process is ready or has failed to start; its state says which.',
      params: byId,
      returns: PluginDetail,
      handle: async ({ caller, params: { id } }) => {
        const supervisor = find(id)
        refuseWhenDisabled(supervisor.id)
        await audited(caller, { action: 'plugins.restart', target: supervisor.id }, async () => {
          await host.restart(supervisor)
          return undefined
        })
        return describeDetail(host, supervisor, enabled())
      },
    }),
    route({
      method: 'POST',
      path: '/plugins/:id/stop',
      access: 'gatewayAdmin',
      limit: 'write',
      summary: 'Stop the plugin until it is restarted',
      description: 'It stays stopped over a restart of the gateway. What is meant for it is kept.',
      params: byId,
      returns: PluginDetail,
      handle: async ({ caller, params: { id } }) => {
        const supervisor = find(id)
        await audited(caller, { action: 'plugins.stop', target: supervisor.id }, async () => {
          await host.stopPlugin(supervisor)
          return undefined
        })
        return describeDetail(host, supervisor, enabled())
      },
    }),
    route({
      method: 'POST',
      path: '/plugins/scan',
      access: 'gatewayAdmin',
      limit: 'write',
      summary: 'Look through the plugin directories now',
      description: 'Changes are noticed without it; this is for file systems that tell of none. New plugins are started in the background.',
      returns: pageOf(Plugin),
      handle: async ({ caller }) => {
        await audited(caller, { action: 'plugins.scan', target: '' }, async () => {
          await host.scan()
          return undefined
        })
        return pageOfList(listPlugins(host, enabled()), ({ id, source }) => `${id}\0${source}`)
      },
    }),
    route({
      method: 'PUT',
      path: '/plugins/settings',
      access: 'gatewayAdmin',
      limit: 'write',
      summary: 'Switch external plugins on or off, and set the allow-list',
      description: 'Takes effect at once and is written to the configuration file. 409 when the environment pins a key.',
      body: PluginSettingsChange,
      returns: PluginSettings,
      handle: async ({ caller, body }) => {
        for (const [value, setting] of [
          [body.enabled, settings.enabled],
          [body.allowlist, settings.allowlist],
        ] as const) {
          const pin = value === undefined ? undefined : setting.pinnedBy()
          if (pin !== undefined) throw conflict(`${setting.key} is pinned by ${pin}: change it there`, { key: setting.key })
        }
        if (body.enabled !== undefined) await settings.enabled.set(body.enabled)
        if (body.allowlist !== undefined) await settings.allowlist.set(body.allowlist)
        await host.scan()
        const now = { enabled: enabled(), allowlist: settings.allowlist.get() }
        await audit.record(caller, { action: 'plugins.settings', outcome: 'succeeded', details: now })
        return now
      },
    }),
  ]
}
