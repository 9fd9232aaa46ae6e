import { ADMIN_ROLE, OPERATOR_ROLE } from '../../core/http/caller.js'
import { allPermissions, type Permission } from './permissions.js'

export const USER_ROLE = 'User'

export interface Role {
  readonly name: string
  readonly description: string
  readonly permissions: readonly Permission[]
}

/** What every user may do with its own things. */
const OWN_THINGS = [
  'ManageAgents',
  'ManageSessions',
  'ManageMemory',
  'ManageDocuments',
  'ManageChannels',
  'ManageTasks',
  'ManageWorkflows',
  'ManageSkills',
  'ManageConnections',
  'ManageWebhooks',
  'ManageApprovals',
  'ExecuteCommands',
] as const satisfies Permission[]

/** The roles that exist from the start. */
export const roles: readonly Role[] = [
  { name: ADMIN_ROLE, description: 'Every permission', permissions: allPermissions },
  { name: OPERATOR_ROLE, description: 'Keeps the gateway running', permissions: ['OperateGateway'] },
  { name: USER_ROLE, description: 'Works with its own things', permissions: OWN_THINGS },
]

export const roleNames = roles.map(({ name }) => name)

/** One list a combination of roles: there are few, and every request asks. */
const known = new Map<string, readonly string[]>()

/** What users with these roles may do. Unknown roles give nothing. */
export const permissionsOf = (names: readonly string[]): readonly string[] => {
  const key = names.length === 1 ? (names[0] ?? '') : names.join()
  let list = known.get(key)
  if (!list) {
    list = [...new Set(roles.filter(({ name }) => names.includes(name)).flatMap(role => role.permissions))]
    // Roles are checked when users are written, so keys are combinations of a few names; the bound is for a damaged store.
    if (known.size < 1000) known.set(key, list)
  }
  return list
}
