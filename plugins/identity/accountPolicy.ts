import { z } from 'zod'

const MIN_PASSWORD_CHARACTERS = 8
const MAX_PASSWORD_BYTES = 1024
/** RFC 5321: 64 for the local part, 255 for the domain, and the sign between. */
const MAX_EMAIL_LENGTH = 320

/**
 * One spelling an address, whatever the case, the Unicode form and the width of its letters. A domain without a dot is
 * allowed. Lower case can be in another form than what it was made from, hence the second time.
 */
export const normaliseEmail = (email: string): string => email.normalize('NFKC').trim().toLowerCase().normalize('NFKC')

/** One spelling a password: keyboards differ in how they compose letters (RFC 8265, OpaqueString). */
export const normalisePassword = (password: string): string => password.normalize('NFC')

/** Without what cannot be seen: two addresses that look the same would be two users. */
const ADDRESS = /^[^\s\p{C}@]+@[^\s\p{C}@]+$/u

export const Email = z
  .string()
  .max(MAX_EMAIL_LENGTH)
  .refine(text => ADDRESS.test(normaliseEmail(text)), { error: 'expected an e-mail address' })

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

export const MAX_NAME_LENGTH = 200
export const Name = z.string().trim().min(1).max(MAX_NAME_LENGTH)
