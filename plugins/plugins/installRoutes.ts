import { z } from 'zod'
import { notFound, validationFailed } from '../../core/errors.js'
import { route, type Route } from '../../core/http/route.js'
import type { PluginHostCore } from '../../core/host/host.js'
import type { Installation } from '../../core/host/installs.js'
import type { Audited } from './audited.js'
import type { Installer } from './installer.js'
import { findDetail, PluginDetail } from './records.js'

const byId = z.object({ id: z.string().min(1).max(256) })
const flag = (meaning: string) => z.enum(['true', 'false']).optional().describe(meaning)

interface InstallParts {
  installer: Installer
  /** `Service:Plugins:Enabled` */
  enabled: () => boolean
  audited: Audited
}

export const installRoutes = (host: PluginHostCore, { installer, enabled, audited }: InstallParts): Route[] => {
  const describe = (id: string): PluginDetail => {
    const detail = findDetail(host, id, enabled())
    if (!detail) throw notFound('Plugin')
    return detail
  }

  const report = ({ id, current, previous }: Installation) => ({ target: id, details: { ...current, previous: previous?.version ?? null } })

  return [
    route({
      method: 'POST',
      path: '/plugins/install',
      access: 'gatewayAdmin',
      limit: 'expensive',
      summary: 'Install a plugin from its archive',
      description:
        'Takes a `.service-plugin` archive as `service dev build` writes it. It is checked as a whole first: an archive that is damaged, changed, or (with Service:Plugins:RequireSignature) not signed by a trusted key is 422 and changes nothing. A higher version replaces the installed one, without losing a call; the one before is kept for a rollback. A lower version, or other content of the same version, is 409 unless `force` is true; the same archive once more changes nothing. 409 too when a plugin directory holds a higher version, which would run instead. The installation is complete with the answer; the new version starts in the background: `GET /plugins/{id}` shows when it serves, or in `lastError` why the old one still does.',
      query: z.object({ force: flag('Take a lower version, or other content of the same version') }),
      upload: { field: 'file' },
      returns: PluginDetail,
      status: 201,
      location: ({ id }) => `/plugins/${encodeURIComponent(id)}`,
      handle: async ({ caller, query, files }) => {
        const [archive, ...more] = files
        if (!archive || more.length > 0)
          throw validationFailed([{ path: 'file', message: 'the form must hold one archive and no other file' }])
        const force = query.force === 'true'
        const { target } = await audited(caller, { action: 'plugins.install', target: archive.name }, async () =>
          report(await installer.install(archive.path, { force })),
        )
        return describe(target)
      },
    }),
    route({
      method: 'POST',
      path: '/plugins/:id/rollback',
      access: 'gatewayAdmin',
      limit: 'write',
      summary: 'Go back to the version that was installed before',
      description:
        'The version until now becomes the earlier one, so that a second rollback goes forth again. 409 when there is no earlier version, or when the plugin was not installed through the API.',
      params: byId,
      returns: PluginDetail,
      handle: async ({ caller, params: { id } }) => {
        const { target } = await audited(caller, { action: 'plugins.rollback', target: id }, async () =>
          report(await installer.rollBack(id)),
        )
        return describe(target)
      },
    }),
    route({
      method: 'DELETE',
      path: '/plugins/:id',
      access: 'gatewayAdmin',
      limit: 'write',
      summary: 'Delete an installed plugin',
      description:
        'Stops it and removes both its versions. Its channels stay, disconnected, with their settings and secrets, until they are deleted themselves; its data directory stays unless `deleteData` is true, so that it can be installed again and go on. A copy in a plugin directory takes over; one that lies only there cannot be deleted: 409.',
      params: byId,
      query: z.object({ deleteData: flag("Remove the plugin's data directory too") }),
      handle: async ({ caller, params: { id }, query }) => {
        await audited(caller, { action: 'plugins.delete', target: id }, async () => {
          await installer.remove(id, { deleteData: query.deleteData === 'true' })
          return undefined
        })
      },
    }),
  ]
}
