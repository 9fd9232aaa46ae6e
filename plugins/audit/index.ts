import { setting } from '../../core/config.js'
import { definePlugin } from '../../core/plugin.js'
import { collection } from '../../core/store/collection.js'
import { audit } from './contract.js'
import { createAudit, type AuditRow } from './service.js'

export default definePlugin({
  id: 'audit',
  provides: audit,
  collections: {
    entries: collection.global<AuditRow>({
      indexes: [{ fields: { at: -1 } }, { fields: { tenant: 1, at: -1 } }, { fields: { target: 1, at: -1 } }],
      expires: true,
    }),
  },
  settings: {
    /** How long an entry is kept. Applies to entries written from now on. */
    retentionDays: setting.number('Service:Audit:RetentionDays', { default: 365, min: 1, max: 36_500, hot: true }),
  },
  setup: ({ store, settings }) => createAudit(store.entries, () => settings.retentionDays.get()),
})
