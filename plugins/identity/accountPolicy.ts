import { z } from 'zod'

const MIN_PASSWORD_CHARACTERS = 8
const MAX_PASSWORD_BYTES = 1024
/** RFC 5321: 64 for the local part, 255 for the domain, and the sign between. */
const MAX_EMAIL_LENGTH = 320

/** One spelling an address. A domain without a dot is allowed. */
export const normaliseEmail = (email: string): string => email.normalize('NFC').trim().toLowerCase()

export const Email = z
  .string()
  .max(MAX_EMAIL_LENGTH)
  .refine(text => /^[^\s@]+@[^\s@]+$/.test(text.trim()), { error: 'expected an e-mail address' })

export const NewPassword = z
  .string()
  .min(MIN_PASSWORD_CHARACTERS)
  .refine(text => Buffer.byteLength(text) <= MAX_PASSWORD_BYTES, { error: `expected at most ${MAX_PASSWORD_BYTES} bytes` })

/** For logins: no policy, only a bound on the work. */
export const GivenPassword = z.string().min(1).max(MAX_PASSWORD_BYTES)
export const GivenEmail = z.string().min(1).max(MAX_EMAIL_LENGTH)

export const TenantSlug = z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/, {
  error: 'expected 1 to 63 lower-case letters, digits and hyphens, beginning with a letter or digit',
})

export const Name = z.string().trim().min(1).max(200)
