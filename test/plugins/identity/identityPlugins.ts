import audit from '../../../plugins/audit/index.js'
import identity from '../../../plugins/identity/index.js'
import vault from '../../../plugins/vault/index.js'

/** What identity needs to run, and nothing else. */
export const identityPlugins = [identity, vault, audit]
