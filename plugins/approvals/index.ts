import { definePlugin } from '../../core/plugin.js'
import { collection } from '../../core/store/collection.js'
import { audit } from '../audit/contract.js'
import { identity } from '../identity/contract.js'
import { approvalDecided, approvals } from './contract.js'
import { approvalRoutes } from './routes.js'
import { ApprovalService, type ApprovalRow } from './service.js'

/** How often approvals past their deadline are closed. */
const SWEEP_MS = 30_000

export default definePlugin({
  id: 'approvals',
  tags: { approvals: 'Actions that wait for their owner to approve, edit or reject them.' },
  provides: approvals,
  needs: { audit, identity },
  collections: {
    rows: collection.user<ApprovalRow>({
      indexes: [{ fields: { state: 1, createdAt: -1 } }, { fields: { state: 1, deadline: 1 }, acrossOwners: true }],
      expires: true,
    }),
  },
  setup: ({ needs, store, cluster, routes, emit, onStop, log }) => {
    const service = new ApprovalService({
      rows: store.rows,
      audit: needs.audit,
      now: cluster.now,
      onDecided: ({ id, kind, state }) => {
        emit(approvalDecided, { id, kind, state })
      },
    })
    let sweep = Promise.resolve()
    const timer = setInterval(() => {
      sweep = service.expire().catch((error: unknown) => {
        log.error({ err: error }, 'overdue approvals could not be closed')
      })
    }, SWEEP_MS).unref()
    onStop(async () => {
      clearInterval(timer)
      await sweep
    })
    onStop(
      needs.identity.onRemoval('approvals', async owner => {
        await store.rows.for(owner).deleteMany({})
      }),
    )
    routes(approvalRoutes(service))
    return service
  },
})
