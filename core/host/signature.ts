import { normalizePublicKey } from '../../sdk/archiveFormat.js'

/** What a plugin's files prove about their origin. `signed`: the signature is good, whoever made it. */
export type SignatureEvidence = { kind: 'folder' } | { kind: 'undigested' } | { kind: 'unsigned' } | { kind: 'signed'; key: string }

export interface SignaturePolicy {
  /** Public keys, as `service dev keygen` prints them. */
  trustedKeys: readonly string[]
  /** Nothing but archives signed by one of them may run. */
  required: boolean
}

export const SIGNATURE_STATES = ['unsigned', 'trusted', 'unknown-key', 'invalid'] as const

export interface SignatureVerdict {
  state: (typeof SIGNATURE_STATES)[number]
  reason: string
  /** Who signed it. */
  key?: string
}

/** What the evidence is worth to an administrator who trusts these keys. */
export const judgeSignature = (evidence: SignatureEvidence, { trustedKeys }: SignaturePolicy): SignatureVerdict => {
  switch (evidence.kind) {
    case 'folder':
      return { state: 'unsigned', reason: 'a folder carries no signature: install its archive' }
    case 'undigested':
      return { state: 'unsigned', reason: 'the archive carries no digests of its files: build it with service dev build' }
    case 'unsigned':
      return { state: 'unsigned', reason: 'its files are as they were built, but nobody signed them: build it with --sign' }
    case 'signed': {
      const { key } = evidence
      return trustedKeys.some(trusted => normalizePublicKey(trusted) === key)
        ? { state: 'trusted', reason: 'signed with a key of Service:Plugins:TrustedKeys', key }
        : { state: 'unknown-key', reason: 'signed with a key that is not in Service:Plugins:TrustedKeys', key }
    }
  }
}

/** Why the policy keeps a plugin from running; `undefined`: it may. */
export const whyNotTrusted = (evidence: SignatureEvidence, policy: SignaturePolicy): string | undefined => {
  const { state, reason } = judgeSignature(evidence, policy)
  return policy.required && state !== 'trusted' ? `Service:Plugins:RequireSignature is on, and ${reason}` : undefined
}

/** The entries that are no public keys, and so trust nobody. */
export const unreadableKeys = (keys: readonly string[]): string[] => keys.filter(key => normalizePublicKey(key) === undefined)
