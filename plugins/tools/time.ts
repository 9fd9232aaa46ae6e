import { z } from 'zod'
import type { Tool } from './contract.js'

const isTimeZone = (name: string): boolean => {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}

const Parameters = z.object({
  timeZone: z
    .string()
    .max(64)
    .refine(isTimeZone, 'is not a known time zone: use an IANA name such as Europe/Paris')
    .optional()
    .meta({ description: 'IANA name, for example Europe/Paris. Default: UTC.' }),
})

/** The current time, in UTC and in words of the wanted time zone. */
export const timeNow: Tool<typeof Parameters> = {
  name: 'time.now',
  description: 'Tells the current date and time.',
  parameters: Parameters,
  execute: ({ timeZone = 'UTC' }) => {
    const now = new Date()
    const local = new Intl.DateTimeFormat('en-GB', { dateStyle: 'full', timeStyle: 'long', timeZone }).format(now)
    return Promise.resolve({ utc: now.toISOString(), timeZone, local })
  },
}
