import { randomBytes } from 'node:crypto'
import { ConfigError } from '../../core/configLayers.js'
import { GatewayError } from '../../core/errors.js'
import { ADMIN_ROLE } from '../../core/http/caller.js'
import type { Log } from '../../core/log.js'
import { registerSecret } from '../../core/redaction.js'
import type { Users } from './users.js'

export interface FirstAdministrator {
  email: string
  /** Empty: a random one, shown once on the terminal. */
  password: string
}

/**
 * Creates the administrator when there is none. A random password is shown before it is stored: a crash in between
 * leaves a password that never was one, and the next start shows another; a stored password has always been shown.
 */
export const ensureAdministrator = async (
  users: Users,
  { email, password }: FirstAdministrator,
  { show, log }: { show: (text: string) => Promise<void>; log: Pick<Log, 'info'> },
): Promise<void> => {
  if (await users.administrator()) {
    if (password)
      log.info('there is an administrator already, who keeps the present password: Service:Admin:Password is for the first start')
    return
  }
  const chosen = password || randomBytes(15).toString('base64url')
  registerSecret(chosen)
  if (!password) await show(`\nFirst start: log in as ${email} with the password ${chosen}\nIt is shown only this once.\n\n`)
  try {
    await users.create({ email, name: 'Administrator', password: chosen, roles: [ADMIN_ROLE], tenant: null })
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    if (error.code !== 'conflict') throw new ConfigError(`Service:Admin:Email and Service:Admin:Password cannot be used: ${error.message}`)
    if (!(await users.administrator()))
      throw new ConfigError(`There is no administrator, and ${email} is another user: set Service:Admin:Email to a new address`)
    if (!password) await show('Another gateway created the administrator at the same moment: its password counts, not this one.\n')
  }
}
