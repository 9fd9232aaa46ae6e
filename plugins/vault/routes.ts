import { z } from 'zod'
import { route, type Route } from '../../core/http/route.js'
import type { Audit } from '../audit/contract.js'
import type { Vault } from './contract.js'

const Rotated = z.object({ reencrypted: z.int().meta({ description: 'How many secrets there were' }) }).meta({ id: 'VaultRotation' })

export const vaultRoutes = (vault: Vault, audit: Audit): Route[] => [
  route({
    method: 'POST',
    path: '/admin/vault/rotate',
    access: 'gatewayAdmin',
    limit: 'expensive',
    summary: "Replace the vault's key",
    description:
      'Makes a new key, encrypts every secret anew with it and forgets the old key; secrets can be used meanwhile. An interrupted ' +
      'rotation is finished at the next start. 409 names the secrets that cannot be opened; their keys are kept. With keys from ' +
      'Service:Vault:Key none is made: every secret is moved to the first of them.',
    returns: Rotated,
    handle: async ({ caller }) => {
      const result = await vault.rotate()
      await audit.record(caller, { action: 'vault.rotate', details: result })
      return result
    },
  }),
]
